"""Draws over several shards: a sum tree above the shards, whose leaves are their sums."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlfast._core import SegmentTree
from rlfast.utils.arguments.checks import count_of
from rlfast.utils.runtime.seeding import draw_seed


class TopTree:
    r"""Chooses the shards of a sample in proportion to their masses: the sums of their priorities, or their row counts.

    A shard is chosen here, and a row within it there, so a row with priority :math:`p` in shard :math:`k` is drawn with
    probability :math:`M_k / \sum_j M_j \cdot p / S_k`. :math:`M_k` is the sum that shard :math:`k` reported last, and
    :math:`S_k` its sum when the row was drawn, which the shard knows. So importance weights are right, even if a shard
    has changed since it reported.

    :param shards: number of shards, at least 1.
    :param seed: seed of the draws; None draws one from ``np.random``.

    >>> tree = TopTree(2, seed=0)
    >>> tree.set(0, mass=3.0, rows=5)
    >>> tree.set(1, mass=1.0, rows=3)
    >>> tree.probability(0), tree.rows, tree.draw(1000).tolist()
    (0.75, 8, [750, 250])
    """

    def __init__(self, shards: int, seed: int | None = None) -> None:
        count = count_of("shards", shards, least=1)
        self._tree = SegmentTree(count)
        self._rows = np.zeros(count, np.int64)
        self._rng = np.random.default_rng(draw_seed(seed))

    def __len__(self) -> int:
        return len(self._rows)

    def set(self, shard: int, *, mass: float, rows: int) -> None:
        """Notes what a shard has reported.

        :param shard: number of the shard.
        :param mass: the sum of its priorities to the power of alpha, or its number of rows; 0 for an empty shard.
        :param rows: its number of rows.
        :raises ValueError: if the mass is negative or not finite.
        """
        if not 0.0 <= mass < np.inf:
            raise ValueError(f"the mass of shard {shard} must be a sum of priorities, got {mass}")
        self._tree[shard] = mass
        self._rows[shard] = rows

    @property
    def rows(self) -> int:
        """Number of rows of all shards together."""
        return int(self._rows.sum())

    def rows_of(self, shard: int) -> int:
        """Returns the number of rows of a shard.

        :param shard: its number.
        """
        return int(self._rows[shard])

    @property
    def mass(self) -> float:
        """The sum of all masses."""
        return self._tree.reduce()

    def probability(self, shard: int) -> float:
        """Returns the probability that a draw chooses a shard.

        :param shard: number of the shard.
        :raises ValueError: if all shards are empty.
        """
        self._check_any()
        return self._tree[shard] / self.mass

    def draw(self, rows: int) -> NDArray[np.int64]:
        """Returns how many rows to draw from each shard: stratified draws, one in each of ``rows`` equal parts of the
        mass, as within a prioritized buffer (Schaul et al. 2016, arXiv:1511.05952, appendix B.2.1).

        :param rows: number of rows in all.
        :return: int64 ``[shards]``.
        :raises ValueError: if all shards are empty.
        """
        self._check_any()
        places = (np.arange(rows) + self._rng.random(rows)) * (self.mass / max(rows, 1))
        chosen = self._tree.get_prefix_sum_idx(places) if rows else np.zeros(0, np.int64)
        return np.bincount(chosen, minlength=len(self)).astype(np.int64)

    def _check_any(self) -> None:
        if not self.mass > 0.0:
            raise ValueError("there is no row to draw: all shards are empty")


def importance_weights(
    probability: NDArray[np.float64], rows: int, beta: float, *, largest: float | None = None
) -> NDArray[np.float64]:
    r"""Returns importance weights :math:`(N P(i))^{-\beta}`, divided by the largest of them (Schaul et al. 2016,
    arXiv:1511.05952, section 3.4).

    :param probability: the probability :math:`P(i)` of each drawn row among all rows, ``[B]``.
    :param rows: the number :math:`N` of rows.
    :param beta: the exponent.
    :param largest: what the weights are divided by; None for the largest of them.
    :return: float64 ``[B]``.

    >>> importance_weights(np.array([0.5, 0.125]), rows=4, beta=0.5).tolist()
    [0.5, 1.0]
    """
    weights = (rows * np.asarray(probability, np.float64)) ** -beta
    return weights / (weights.max(initial=0.0) if largest is None else largest)
