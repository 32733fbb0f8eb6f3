"""Compiling a whole update into one graph."""
