"""Rows that belong together: neighbours, n-step returns and stretches of an episode."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlfast._core import carried
from rlfast.data.buffer.store.row_range import Rows, with_goals
from rlfast.data.buffer.store.store import Index


class Episodes(Rows):
    """What a buffer knows about the episodes its rows belong to."""

    def prev(self, index: int | list[int] | NDArray[Any]) -> Any:
        """The row before each, in its episode; an episode's oldest row is its own.

        :param index: one row or many; where no row is yet, the index modulo the rows of its ring.
        :return: int64, of the shape of ``index``.
        """
        rows = self._live_rows(index)
        return self._named(with_goals(rows, self._core.prev(rows)))

    def next(self, index: int | list[int] | NDArray[Any]) -> Any:
        """The row after each, in its episode; an episode's newest row is its own.

        :param index: one row or many; where no row is yet, the index modulo the rows of its ring.
        :return: int64, of the shape of ``index``.
        """
        rows = self._live_rows(index)
        return self._named(with_goals(rows, self._core.next(rows)))

    def _live_rows(self, index: Any) -> Index:
        rows = self._rows(index)
        size = len(self)
        if size in (0, self.maxsize):
            return rows
        offsets, sizes = np.asarray(self._core.offsets), self._core.sizes()
        ring = np.searchsorted(offsets, rows, "right") - 1
        local = rows - offsets[ring]
        if (local < sizes[ring]).all():
            return rows
        if self._ring is not None:  # -1 is the last row that there is
            local = np.where(local < size, local, np.asarray(index) % size)
        return np.asarray(offsets[ring] + local % np.maximum(sizes[ring], 1))

    def _named(self, rows: Index) -> Any:
        return np.int64(rows - self._base) if rows.ndim == 0 else self._outside(rows)

    def rows_until(self, last: int, length: int) -> Index:
        """The ``length`` rows that end with ``last``, oldest first; no more than its ring has.

        :param last: the newest of them, such as the index :meth:`add` gave for the end of an episode.
        """
        row = last + self._base
        ring = int(np.searchsorted(self._core.offsets, row, "right")) - 1
        offset, size = self._core.offsets[ring], self._core.capacities[ring]
        length = min(length, int(self._core.sizes()[ring]))
        return self._outside(offset + (row - offset + np.arange(1 - length, 1)) % size)

    def unfinished_index(self) -> Index:
        """The newest row of each ring whose episode is running."""
        rows = self._core.unfinished()
        if not self._whole:
            rows = rows[(rows >= self._base) & (rows < self._base + self.maxsize)]
        return self._outside(rows)

    def nstep(
        self, indices: Index, n_step: int, gamma: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], Index]:
        r"""N-step returns without their bootstrap: the target is ``reward_sum + discount * q(buffer[last].obs_next)``.

        Sutton 1988, *Learning to Predict by the Methods of Temporal Differences*.

        :param indices: rows :math:`t`, ``[B]``.
        :param n_step: rows at most, >= 1.
        :param gamma: discount factor.
        :return: :math:`\sum_{k<m} \gamma^k r_{t+k}` over the :math:`m \le n` rows that exist inside the episode,
            ``[B]`` (or ``[B, agents]``); :math:`\gamma^m`, or 0 if the last row is terminal; the last row's index.
        :raises ValueError: ``n_step`` below 1.
        """
        if n_step < 1:
            raise ValueError(f"n_step must be at least 1, got {n_step}")
        stored = "rew" not in self._store.assigned
        if stored and self._config.relabel is None and self._straight(indices):
            try:
                return self._core.nstep(indices, n_step, gamma)
            except IndexError:
                pass
        rows = self._rows(indices)
        if stored and (self._config.relabel is None or carried(rows) is None):
            reward_sum, discount, last = self._core.nstep(rows, n_step, gamma)
            return reward_sum, discount, self._outside(last)
        unrolled, count = self._core.unroll(rows, n_step)
        powers = np.where(np.arange(n_step) < count[..., None], gamma ** np.arange(n_step), 0.0)
        rewards = self._rewards(with_goals(rows, unrolled))
        reward_sum = (rewards * powers.reshape(powers.shape + (1,) * (rewards.ndim - powers.ndim))).sum(rows.ndim)
        last = with_goals(rows, unrolled[..., -1])
        terminated = self._store.take(last, ["terminated"])["terminated"]
        return reward_sum, np.where(terminated, 0.0, gamma**count), self._outside(last)

    def _rewards(self, rows: Index) -> NDArray[np.float64]:
        """Rewards of rows of any shape, for the goals that the rows remember."""
        fields = self._store.take(rows, ["rew"])
        if self._config.relabel is not None:
            self._config.relabel.apply(self._store, rows, fields)
        rewards: NDArray[np.float64] = fields["rew"]
        return rewards

    def window(self, indices: Index, before: int, length: int) -> tuple[Index, NDArray[np.bool_]]:
        """Rows around each: up to ``before`` ahead of it in its episode, then ``length`` from it on.

        :param indices: rows, ``[B]``.
        :return: rows and a mask, ``[B, before + length]``; where it is False the nearest row of the episode is
            repeated.
        """
        rows = self._rows(indices)
        around, mask = self._core.window(rows, before, length)
        return self._outside(with_goals(rows, around)), mask
