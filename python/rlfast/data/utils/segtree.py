"""The sum tree that prioritized sampling draws from.

>>> import numpy as np
>>> tree = SegmentTree(5)
>>> tree[np.array([1, 3])] = np.array([1.0, 3.0])
>>> tree.reduce(), tree[3], tree.reduce(2, 4)
(4.0, 3.0, 3.0)

:meth:`SegmentTree.get_prefix_sum_idx` finds the leaf of a mass: the first leaf at which the sum of the leaves so far
reaches the mass. Uniformly random masses thus find leaves in proportion to their values, and never a leaf that is zero.
The mass 0 finds the first leaf that is not zero:

>>> tree.get_prefix_sum_idx(np.array([0.0, 0.5, 1.0, 1.1, 4.0]))
array([1, 1, 1, 3, 3])
>>> tree.get_prefix_sum_idx(4.5)
Traceback (most recent call last):
    ...
rlfast._core.OutOfRange: mass 4.5 is outside [0, 4], the sum of the leaves
"""

from rlfast._core import OutOfRange, SegmentTree

__all__ = ["OutOfRange", "SegmentTree"]
