"""Algorithms that learn a model of the environment."""
