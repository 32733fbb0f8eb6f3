"""A sum tree by definition: a list of leaves."""

import math


class SegmentTree:
    """Leaves in a list. Use whole numbers as values, so that no order of summation can round."""

    def __init__(self, size: int) -> None:
        self.leaves = [0.0] * size

    def reduce(self, start: int = 0, end: int | None = None) -> float:
        return math.fsum(self.leaves[start : len(self.leaves) if end is None else end])

    def find(self, mass: float) -> int:
        """The leaf whose interval ``(lo, hi]`` of the cumulated mass holds ``mass``.

        Zero belongs to the first leaf that has any mass, what is past the end to the last."""
        upper = 0.0
        for leaf, value in enumerate(self.leaves):
            upper += value
            if value > 0 and mass <= upper:
                return leaf
        return max(leaf for leaf, value in enumerate(self.leaves) if value > 0)
