"""Algorithms that learn from fixed data, or from what an expert did: one in each file."""
