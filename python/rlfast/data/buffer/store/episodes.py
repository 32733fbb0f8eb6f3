"""The methods of a buffer about episodes: neighbours, n-step returns and windows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlfast._core import Replay
from rlfast.data.buffer.store.row_range import HasRows, IndexLike, RowRange, with_goals
from rlfast.data.buffer.store.store import Index


class EpisodeMethods(HasRows):
    """The methods of a buffer about the rows of an episode."""

    def prev(self, index: int | list[int] | NDArray[Any]) -> Any:
        """Returns the row before each row in its episode; for the oldest row of an episode, that row itself.

        :param index: one row or many. An index without a row is taken modulo the number of rows of its ring.
        :return: int64 of the shape of ``index``.
        :raises IndexError: if an index is out of range.
        """
        return self._core.hold(partial(_neighbours, self._rows, index, self._core.prev))

    def next(self, index: int | list[int] | NDArray[Any]) -> Any:
        """Returns the row after each row in its episode; for the newest row of an episode, that row itself.

        :param index: one row or many. An index without a row is taken modulo the number of rows of its ring.
        :return: int64 of the shape of ``index``.
        :raises IndexError: if an index is out of range.
        """
        return self._core.hold(partial(_neighbours, self._rows, index, self._core.next))

    def rows_until(self, last: int, length: int) -> Index:
        """Returns the ``length`` rows up to and including ``last``, oldest first; fewer if the ring has fewer rows.

        :param last: the newest of the rows, such as the index that :meth:`add` returned for the end of an episode.
        :param length: number of rows.
        :return: int64 of at most ``length`` elements.
        """
        rows = self._rows
        core, row = rows.core, last + rows.base
        ring = int(np.searchsorted(core.offsets, row, "right")) - 1
        offset, size = core.offsets[ring], core.capacities[ring]
        length = min(length, int(core.sizes()[ring]))
        return rows.outside(offset + (row - offset + np.arange(1 - length, 1)) % size)

    def unfinished_index(self) -> Index:
        """Returns the newest row of each ring whose newest episode is running.

        :return: int64, one element for each such ring.
        """
        rows, newest = self._rows, self._core.unfinished()
        if not rows.whole:
            newest = newest[(newest >= rows.base) & (newest < rows.base + rows.maxsize)]
        return rows.outside(newest)

    def nstep(
        self, indices: Index, n_step: int, gamma: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], Index]:
        r"""Returns the parts of n-step targets ``reward_sum + discount * q(buffer[last].obs_next)``.

        Sutton 1988, *Learning to Predict by the Methods of Temporal Differences*.

        :param indices: rows :math:`t`, ``[B]``.
        :param n_step: the largest number of rows to sum over, at least 1.
        :param gamma: discount factor.
        :return: ``reward_sum``, :math:`\sum_{k<m} \gamma^k r_{t+k}` over the :math:`m \le n` rows that the episode has,
            ``[B]`` (or ``[B, agents]``); ``discount``, :math:`\gamma^m`, or 0 if the last row is terminal, ``[B]``; and
            ``last``, the index of the last row, ``[B]``.
        :raises ValueError: if ``n_step`` is less than 1.
        """
        rows = self._rows
        if n_step < 1:
            raise ValueError(f"n_step must be at least 1, got {n_step}")
        stored = "rew" not in rows.store.assigned
        return rows.read(stored and rows.config.relabel is None, _nstep, indices, n_step, gamma)

    def window(self, indices: Index, before: int, length: int) -> tuple[Index, NDArray[np.bool_]]:
        """Returns for each row the ``before`` rows before it in its episode and the ``length`` rows from it on.

        :param indices: rows, ``[B]``.
        :param before: number of rows before each row, at least 0.
        :param length: number of rows from each row on, itself included.
        :return: rows and a mask, ``[B, before + length]``. Where the mask is False, the episode has no such row, and
            its nearest row is repeated.
        """
        return self._rows.read(False, _window, indices, before, length)

    @property
    def subbuffer_edges(self) -> NDArray[np.int64]:
        """The first row of each ring, and the end of the last ring: ``[0, maxsize]`` for a buffer with one ring."""
        return np.array([0, self.maxsize])

    def get_buffer_indices(self, start: int, stop: int) -> NDArray[np.int64]:
        """Returns the rows from ``start`` up to, but not including, ``stop``, in the order of their ring.

        If ``stop`` is smaller than ``start``, the rows continue at the start of the ring. If they are equal, there are
        none.

        :param start: the first row, such as that of an episode.
        :param stop: the row after the last one.
        :return: int64.
        :raises ValueError: if the two are in different rings, or outside the storage.

        >>> from rlfast.data import VectorReplayBuffer
        >>> VectorReplayBuffer(10, 2).get_buffer_indices(8, 7).tolist()
        [8, 9, 5, 6]
        """
        edges = self.subbuffer_edges
        if not (0 <= start < edges[-1] and 0 < stop <= edges[-1]):
            raise ValueError(f"rows {start} to {stop} are not in a storage of {edges[-1]} rows")
        ring = int(np.searchsorted(edges, start, side="right")) - 1
        first, end = int(edges[ring]), int(edges[ring + 1])
        if not first < stop <= end:
            raise ValueError(f"rows {start} to {stop} are in different buffers, whose edges are {edges.tolist()}")
        if start <= stop:
            return np.arange(start, stop)
        return np.concatenate([np.arange(start, end), np.arange(first, stop)])

    @property
    def last_index(self) -> Index:
        """The newest row of each ring, or the first slot of a ring without rows. It cannot be changed."""
        return self._core.hold(partial(_last_index, self._rows))

    @last_index.setter
    def last_index(self, value: ArrayLike) -> None:
        if not np.array_equal(np.ravel(value), self.last_index):
            raise ValueError(f"last_index follows from the rows: it is {self.last_index}, and cannot become {value!r}")

    def close_episodes(self, buffer_ids: NDArray[Any] | list[int] | None = None) -> None:
        """Ends running episodes as truncated at their newest row, for environments that are reset within an episode.

        :param buffer_ids: numbers of the buffers whose episodes end; default all.
        :raises IndexError: if there is no such buffer.
        """
        self._core.hold(partial(_close, self._core, self._rings_of(buffer_ids)))

    def _rings_of(self, buffer_ids: NDArray[Any] | list[int] | None) -> list[int]:
        if buffer_ids is not None and any(buffer_id != 0 for buffer_id in buffer_ids):
            raise IndexError(f"this buffer has one ring, of buffer id 0, got {list(buffer_ids)}")
        return [self._rows.ring or 0]


def _neighbours(rows: RowRange, index: IndexLike, step: Callable[[Index], Index]) -> Any:
    here = rows.resolve_live(index)
    found = with_goals(rows.core, here, step(here))
    return np.int64(found - rows.base) if found.ndim == 0 else rows.outside(found)


def _last_index(rows: RowRange) -> Index:
    core = rows.core
    rings = slice(None) if rows.ring is None else slice(rows.ring, rows.ring + 1)
    offsets = np.array(core.offsets[rings], np.int64)
    capacities = np.maximum(core.capacities[rings], 1)
    last = offsets + (core.cursors()[rings] - 1) % capacities
    newest: Index = np.where(core.sizes()[rings] > 0, last, offsets) - rows.base
    newest.flags.writeable = False
    return newest


def _close(core: Replay, rings: Iterable[int]) -> None:
    for ring in rings:
        core.close_episode(ring)
        if core.running(ring)[1]:  # reset(keep_statistics=True) has removed its rows
            core.set_running(ring, 0.0, 0, core.offsets[ring] + int(core.cursors()[ring]))


def _nstep(
    rows: RowRange, here: Index, n_step: int, gamma: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], Index]:
    core = rows.core
    if "rew" not in rows.store.assigned and (rows.config.relabel is None or core.goals(here) is None):
        reward_sum, discount, last = core.nstep(here, n_step, gamma)
        return reward_sum, discount, rows.outside(last)
    unrolled, count = core.unroll(here, n_step)
    powers = np.where(np.arange(n_step) < count[..., None], gamma ** np.arange(n_step), 0.0)
    rewards = _rewards(rows, with_goals(core, here, unrolled))
    reward_sum = (rewards * powers.reshape(powers.shape + (1,) * (rewards.ndim - powers.ndim))).sum(here.ndim)
    last = with_goals(core, here, unrolled[..., -1])
    terminated = rows.store.take(last, ["terminated"])["terminated"]
    return reward_sum, np.where(terminated, 0.0, gamma**count), rows.outside(last)


def _rewards(rows: RowRange, unrolled: Index) -> NDArray[np.float64]:
    """Returns rewards of rows of any shape, for the goals that the rows record."""
    fields = rows.store.take(unrolled, ["rew"])
    if rows.config.relabel is not None:
        rows.config.relabel.apply(unrolled, rows.core.goals(unrolled), fields, rows.store.take)
    rewards: NDArray[np.float64] = fields["rew"]
    return rewards


def _window(rows: RowRange, here: Index, before: int, length: int) -> tuple[Index, NDArray[np.bool_]]:
    around, mask = rows.core.window(here, before, length)
    return rows.outside(with_goals(rows.core, here, around)), mask
