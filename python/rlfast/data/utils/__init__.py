"""Tianshou 1.0's paths to converters and the segment tree."""
