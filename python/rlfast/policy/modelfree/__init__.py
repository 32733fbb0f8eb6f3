"""Algorithms that learn without a model of the environment, one a file."""
