"""Tianshou 1.0's path to what :mod:`rlfast.data.segment_tree` has."""

from rlfast.data.segment_tree import SegmentTree

__all__ = ["SegmentTree"]
