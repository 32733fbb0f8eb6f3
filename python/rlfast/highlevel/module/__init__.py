"""Factories of networks."""
