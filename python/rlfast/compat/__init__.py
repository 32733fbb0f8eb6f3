"""Compatibility with scripts that were written for Tianshou: names that the rest of rlfast does not need."""
