"""File formats of transitions and of nested values: each in one module."""
