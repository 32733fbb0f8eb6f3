"""Functions of the rows of an episode: neighbours, n-step returns and windows.

They implement the methods of :class:`rlfast.data.ReplayBuffer` with similar names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlfast._core import Replay
from rlfast.data.buffer.store.row_range import RowRange, with_goals
from rlfast.data.buffer.store.store import Index


def prev(rows: RowRange, index: Any) -> Any:
    """Returns the row before each row in its episode; an integer for an integer."""
    return rows.core.hold(partial(_neighbours, rows, index, rows.core.prev))


def next_(rows: RowRange, index: Any) -> Any:
    """Returns the row after each row in its episode; an integer for an integer."""
    return rows.core.hold(partial(_neighbours, rows, index, rows.core.next))


def _neighbours(rows: RowRange, index: Any, step: Callable[[Index], Index]) -> Any:
    here = rows.resolve_live(index)
    found = with_goals(rows.core, here, step(here))
    return np.int64(found - rows.base) if found.ndim == 0 else rows.outside(found)


def rows_until(rows: RowRange, last: int, length: int) -> Index:
    """Returns the ``length`` rows up to and including ``last``, oldest first."""
    core, row = rows.core, last + rows.base
    ring = int(np.searchsorted(core.offsets, row, "right")) - 1
    offset, size = core.offsets[ring], core.capacities[ring]
    length = min(length, int(core.sizes()[ring]))
    return rows.outside(offset + (row - offset + np.arange(1 - length, 1)) % size)


def between(edges: NDArray[np.int64], start: int, stop: int) -> NDArray[np.int64]:
    """Returns the rows from ``start`` up to ``stop`` in a ring, around its end if ``stop`` is smaller.

    :param edges: the first row of each ring, and the end of the last ring.
    :raises ValueError: if the two are in different rings, or outside the storage.
    """
    if not (0 <= start < edges[-1] and 0 < stop <= edges[-1]):
        raise ValueError(f"rows {start} to {stop} are not in a storage of {edges[-1]} rows")
    ring = int(np.searchsorted(edges, start, side="right")) - 1
    first, end = int(edges[ring]), int(edges[ring + 1])
    if not first < stop <= end:
        raise ValueError(f"rows {start} to {stop} are in different buffers, whose edges are {edges.tolist()}")
    if start <= stop:
        return np.arange(start, stop)
    return np.concatenate([np.arange(start, end), np.arange(first, stop)])


def unfinished(rows: RowRange) -> Index:
    """Returns the newest row of each ring whose newest episode is running."""
    newest = rows.core.unfinished()
    if not rows.whole:
        newest = newest[(newest >= rows.base) & (newest < rows.base + rows.maxsize)]
    return rows.outside(newest)


def last_index(rows: RowRange) -> Index:
    """Returns the newest row of each ring, or its first slot if it has no rows, as a read-only array."""
    return rows.core.hold(partial(_last_index, rows))


def _last_index(rows: RowRange) -> Index:
    core = rows.core
    rings = slice(None) if rows.ring is None else slice(rows.ring, rows.ring + 1)
    offsets = np.array(core.offsets[rings], np.int64)
    capacities = np.maximum(core.capacities[rings], 1)
    last = offsets + (core.cursors()[rings] - 1) % capacities
    newest: Index = np.where(core.sizes()[rings] > 0, last, offsets) - rows.base
    newest.flags.writeable = False
    return newest


def close(rows: RowRange, rings: Iterable[int]) -> None:
    """Ends the running episodes of rings as truncated at their newest row."""
    rows.core.hold(partial(_close, rows.core, rings))


def _close(core: Replay, rings: Iterable[int]) -> None:
    for ring in rings:
        core.close_episode(ring)
        if core.running(ring)[1]:  # reset(keep_statistics=True) has removed its rows
            core.set_running(ring, 0.0, 0, core.offsets[ring] + int(core.cursors()[ring]))


def nstep(
    rows: RowRange, indices: Index, n_step: int, gamma: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], Index]:
    """Returns sums of rewards, discounts of the value after them, and the last rows.

    :raises ValueError: if ``n_step`` is less than 1.
    """
    if n_step < 1:
        raise ValueError(f"n_step must be at least 1, got {n_step}")
    relabel, core = rows.config.relabel, rows.core
    stored = "rew" not in rows.store.assigned
    if stored and relabel is None and rows.whole and type(indices) is np.ndarray and indices.dtype == np.int64:
        try:
            return core.nstep(indices, n_step, gamma)
        except IndexError:
            pass
    return core.hold(partial(_nstep, rows, indices, n_step, gamma, stored=stored))


def _nstep(
    rows: RowRange, indices: Index, n_step: int, gamma: float, *, stored: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64], Index]:
    core, here = rows.core, rows.resolve(indices)
    if stored and (rows.config.relabel is None or core.goals(here) is None):
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


def window(rows: RowRange, indices: Index, before: int, length: int) -> tuple[Index, NDArray[np.bool_]]:
    """Returns the rows around each row in its episode, and a mask of those that exist."""
    return rows.core.hold(partial(_window, rows, indices, before, length))


def _window(rows: RowRange, indices: Index, before: int, length: int) -> tuple[Index, NDArray[np.bool_]]:
    here = rows.resolve(indices)
    around, mask = rows.core.window(here, before, length)
    return rows.outside(with_goals(rows.core, here, around)), mask
