"""Slow and simple models, with which the fast code is compared."""
