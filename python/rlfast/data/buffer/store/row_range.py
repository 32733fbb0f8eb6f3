"""The rows of a store that belong to a buffer, and their numbers in the buffer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from rlfast import _core
from rlfast._core import Replay, carry
from rlfast.data.buffer.options.config import Config
from rlfast.data.buffer.options.samplers import Prioritized
from rlfast.data.buffer.options.units import Transition
from rlfast.data.buffer.store.store import Added, Index, Store
from rlfast.utils.arguments.checks import check_copyable

T = TypeVar("T")
_INT64 = np.dtype(np.int64)  # comparing with it is quicker than with the class
IndexLike: TypeAlias = int | slice | list[int] | NDArray[Any]
"""One row or many: an integer, a list, an array, a mask over all rows, or a slice over the live rows."""


class RowRange:
    """One ring of a store, or all rings.

    The buffers under a manager share its store. A row has a number in the store, and a number in its buffer, which
    counts from the buffer's first row.

    :param store: the store.
    :param ring: the number of the ring; None for all rings.
    :ivar maxsize: the largest number of rows.
    :ivar whole: whether these are all rows of the store.
    :ivar only_ring: the ring for calls of the engine; None if these are all rows of the store.
    :ivar base: the number of the first row in the store.
    :ivar stack_num: number of frames of stacks that are read.
    :ivar transitions: whether drawn rows become transitions as the engine makes them.
    :ivar direct: whether rows are read as they are stored: without goals and without weights.
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
        self.direct = store.config.relabel is None and not isinstance(store.config.sampler, Prioritized)
        self.transitions = self.whole and store.config.relabel is None and isinstance(store.config.unit, Transition)

    def __len__(self) -> int:
        return len(self.core) if self.whole else int(self.core.sizes()[self.ring])

    @property
    def span(self) -> slice | None:
        """The slice of the rows in columns of the store; None for all rows."""
        return None if self.whole else slice(self.base, self.base + self.maxsize)

    def read(self, at_once: bool, read: Callable[..., T], index: IndexLike, *arguments: object) -> T:
        """Returns ``read(self, rows, *arguments)`` for the rows of the store that an index of the buffer names.

        :param at_once: whether ``read`` calls the engine once, so that no other thread can write in between.
        :raises IndexError: if a row is out of range, or ``index`` is not an index.
        """
        if self.whole and type(index) is np.ndarray and index.dtype == _INT64 and index.ndim:
            try:
                if at_once:
                    return read(self, index, *arguments)
                return self.core.hold(partial(read, self, index, *arguments))
            except IndexError:  # rows that count from the end, or that do not exist
                pass
        return self.core.hold(lambda: read(self, self.resolve(index), *arguments))

    def resolve(self, index: IndexLike) -> Index:
        """Returns the rows of the store for an index of the buffer.

        :param index: an integer, a list, an array, a mask, or a slice over the live rows.
        :raises IndexError: if a row is out of range, or ``index`` is not an index.
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
        if rows.size and rows.view(np.uint64).max() >= size:  # negative rows are large numbers as unsigned integers
            rows = np.where(rows < 0, rows + size, rows)
            if rows.max() >= size or rows.min() < 0:
                raise IndexError(f"index {index} is out of range for a buffer of {size} rows")
        return shift(rows, self.base)

    def resolve_live(self, index: IndexLike) -> Index:
        """Returns :meth:`resolve`, where an index without a row is taken modulo the number of rows of its ring."""
        rows = self.resolve(index)
        size = len(self)
        if size in (0, self.maxsize):
            return rows
        offsets, sizes = np.asarray(self.core.offsets), self.core.sizes()
        ring = np.searchsorted(offsets, rows, "right") - 1
        local = rows - offsets[ring]
        if (local < sizes[ring]).all():
            return rows
        if self.ring is not None:  # -1 is the newest row
            local = np.where(local < size, local, np.asarray(index) % size)
        return np.asarray(offsets[ring] + local % np.maximum(sizes[ring], 1))

    def outside_added(self, added: Added) -> Added:
        """Returns what the engine says of rows that were added, with their numbers in the buffer."""
        index, episode_return, length, start = added
        return index - self.base, episode_return, length, start - self.base

    def outside(self, rows: Index) -> Index:
        """Returns the numbers in the buffer of rows of the store."""
        return shift(rows, -self.base)


def shift(rows: Index, by: int) -> Index:
    """Returns ``rows + by``, with the goals and generations that the array records."""
    return _core.shift(rows, by) if by else rows


def with_goals(core: Replay, rows: Index, others: Index) -> Index:
    """Returns ``others``, one or more rows for each of ``rows``, with the goals that ``rows`` record."""
    goals = core.goals(rows)
    if goals is None:
        return others
    goals = goals.reshape(goals.shape + (1,) * (others.ndim - goals.ndim))
    return carry(others, np.broadcast_to(goals, others.shape).copy())


class HasRows:
    """The base of the parts of a buffer.

    :ivar maxsize: the largest number of rows.
    """

    _store: Store
    _core: Replay
    _config: Config
    _rows: RowRange
    maxsize: int

    def __len__(self) -> int:
        """Returns the number of rows."""
        rows = self._rows
        return len(rows.core if rows.whole else rows)

    def _assign_column(self, key: str, value: object) -> None:
        if not self._rows.whole:
            raise NotImplementedError(f"assign {key} through the manager: these rows are part of its storage")
        self._core.hold(lambda: self._store.assign(key, value))
