"""Slow models that are right at a glance; the fast code is held against them."""
