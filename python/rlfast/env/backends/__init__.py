"""Backends: they run the environments of a vector environment, in this process or elsewhere."""
