"""Which rows of a store a buffer owns, and how they are named from outside."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlfast import _core
from rlfast._core import Replay, carried, carry
from rlfast.data.buffer.config import Config
from rlfast.data.buffer.store.store import Index, Store
from rlfast.utils.checks import check_copyable


class RowRange:
    """One ring of a store, or all of them.

    The buffers under a manager share its store. Inside, a row has its number in the whole store; outside, a buffer
    counts from its own first row.

    :param store: where the rows are.
    :param ring: which ring of it; None is all of them.
    :ivar maxsize: rows at most.
    :ivar whole: whether these are all rows of the store.
    :ivar only_ring: what the engine is told to look at: None is all of the store.
    :ivar base: number in the store of the first row.
    :ivar stack_num: frames in a stack that is read.
    """

    def __init__(self, store: Store, ring: int | None) -> None:
        self.store: Store = store
        self.core: Replay = store.core
        self.config: Config = store.config
        self.ring = ring
        self.whole = ring is None or len(store.capacities) == 1
        self.only_ring = None if self.whole else ring
        self.base = 0 if ring is None else store.offsets[ring]
        self.maxsize = store.core.total if ring is None else store.capacities[ring]
        self.stack_num = store.config.stack_num

    def __len__(self) -> int:
        return len(self.core) if self.whole else int(self.core.sizes()[self.ring])

    @property
    def span(self) -> slice | None:
        """Where the rows stand in whole columns of the store; None is everywhere."""
        return None if self.whole else slice(self.base, self.base + self.maxsize)

    def resolve(self, index: Any) -> Index:
        """Rows of the store for whatever may stand between brackets.

        :param index: an integer, a list, an array, a mask, or a slice over the live rows.
        :raises IndexError: out of range, or no index at all.
        """
        if isinstance(index, slice):
            if index == slice(None):
                return self.core.chronological(self.only_ring)
            rows: Index = np.sort(self.store.live(self.only_ring))[index]
            return rows
        rows = index if isinstance(index, np.ndarray) else np.asarray(index)
        check_copyable(rows)
        if rows.dtype == np.bool_:
            if rows.shape != (self.maxsize,):
                raise IndexError(f"a mask needs shape ({self.maxsize},), got {rows.shape}")
            rows = np.flatnonzero(rows)
        elif rows.dtype != np.int64:
            if rows.size and rows.dtype.kind not in "iu":
                raise IndexError(f"rows are named by integers, got {rows.dtype}")
            rows = rows.astype(np.int64)
        size = self.maxsize
        if rows.size and rows.view(np.uint64).max() >= size:  # rows below 0 are large numbers then
            rows = np.where(rows < 0, rows + size, rows)
            if rows.max() >= size or rows.min() < 0:
                raise IndexError(f"index {index} is out of range for a buffer of {size} rows")
        return shift(rows, self.base)

    def resolve_live(self, index: Any) -> Index:
        """As :meth:`resolve`; where no row is yet, the index modulo the rows of its ring."""
        rows = self.resolve(index)
        size = len(self)
        if size in (0, self.maxsize):
            return rows
        offsets, sizes = np.asarray(self.core.offsets), self.core.sizes()
        ring = np.searchsorted(offsets, rows, "right") - 1
        local = rows - offsets[ring]
        if (local < sizes[ring]).all():
            return rows
        if self.ring is not None:  # -1 is the last row that there is
            local = np.where(local < size, local, np.asarray(index) % size)
        return np.asarray(offsets[ring] + local % np.maximum(sizes[ring], 1))

    def outside(self, rows: Index) -> Index:
        """Rows of the store as they are named from outside."""
        return shift(rows, -self.base)


def shift(rows: Index, by: int) -> Index:
    """The rows ``by`` further on, with all they remember."""
    return _core.shift(rows, by) if by else rows


def with_goals(rows: Index, others: Index) -> Index:
    """``others``, one or more for each of ``rows``, with the goals that ``rows`` remember."""
    goals = carried(rows)
    if goals is None:
        return others
    goals = goals.reshape(goals.shape + (1,) * (others.ndim - goals.ndim))
    return carry(others, np.broadcast_to(goals, others.shape).copy())
