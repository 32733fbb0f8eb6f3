"""Where a ring is written next, how full it is, and its running episode, under the names that scripts use."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlfast.data.buffer._rows import Rows
from rlfast.data.buffer._store import Index
from rlfast.utils.checks import count_of


class Counters(Rows):
    """The state of a ring beside its rows; of a manager that of its first ring, or of all where that has a meaning."""

    @property
    def _indices(self) -> Index:
        return np.arange(self.maxsize)

    @property
    def _size(self) -> int:
        return len(self)

    @_size.setter
    def _size(self, value: int) -> None:
        ring, capacity = self._one_ring("_size")
        size = count_of("_size", value)
        if not 0 <= size <= capacity:
            raise ValueError(f"_size must be 0 to {capacity}, the size of the buffer, got {size}")
        self._store.resize(ring, size, int(self._core.cursors()[ring]) if size == capacity else size)

    @property
    def _index(self) -> int:
        return int(self._core.cursors()[self._ring or 0])

    @_index.setter
    def _index(self, value: int) -> None:
        ring, capacity = self._one_ring("_index")
        index, size = count_of("_index", value), int(self._core.sizes()[ring])
        if not 0 <= index < max(capacity, 1):
            raise ValueError(f"_index must be below {capacity}, the size of the buffer, and not negative, got {index}")
        if size < capacity and index < size:
            raise ValueError(
                f"_index={index} within the {size} rows of a buffer that is not full: rows are written behind the last "
                "one; set _size first, or call reset"
            )
        if index != self._index:
            self._store.resize(ring, size if size == capacity else index, index)

    def _one_ring(self, name: str) -> tuple[int, int]:
        if self._ring is None and len(self._store.capacities) > 1:
            raise AttributeError(f"{name} of a manager cannot be assigned to: assign to that of each of its buffers")
        ring = self._ring or 0
        return ring, self._store.capacities[ring]

    @property
    def last_index(self) -> Index:
        """Newest row of each ring; where there is none, the ring's first. Read-only: it follows from the rows."""
        rings = slice(None) if self._ring is None else slice(self._ring, self._ring + 1)
        offsets = np.array(self._core.offsets[rings], np.int64)
        capacities = np.maximum(self._core.capacities[rings], 1)
        last = offsets + (self._core.cursors()[rings] - 1) % capacities
        rows: Index = np.where(self._core.sizes()[rings] > 0, last, offsets) - self._base
        rows.flags.writeable = False
        return rows

    @last_index.setter
    def last_index(self, value: Any) -> None:
        if not np.array_equal(np.ravel(value), self.last_index):
            raise ValueError(f"last_index follows from the rows: it is {self.last_index}, and cannot become {value}")

    @property
    def _ep_rew(self) -> float | NDArray[np.float64]:
        return self._running[0]

    @_ep_rew.setter
    def _ep_rew(self, value: float | NDArray[np.float64]) -> None:
        self._core.set_running(self._ring or 0, value, *self._running[1:])

    @property
    def _ep_len(self) -> int:
        return self._running[1]

    @_ep_len.setter
    def _ep_len(self, value: int) -> None:
        total, _, start = self._running
        self._core.set_running(self._ring or 0, total, count_of("_ep_len", value), start)

    @property
    def _ep_idx(self) -> int:
        return self._running[2] - self._base

    @_ep_idx.setter
    def _ep_idx(self, value: int) -> None:
        start = count_of("_ep_idx", value)
        if not 0 <= start < max(self.maxsize, 1):
            raise ValueError(f"_ep_idx must be one of the {self.maxsize} rows, got {start}")
        self._core.set_running(self._ring or 0, *self._running[:2], start + self._base)

    @property
    def _running(self) -> tuple[float | NDArray[np.float64], int, int]:
        return self._core.running(self._ring or 0)
