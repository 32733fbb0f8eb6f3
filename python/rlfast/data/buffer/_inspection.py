"""Stretches of rows across the edges of rings, missing values, and columns that are set later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from rlfast.data.batch.batch import Batch


class Inspection:
    """What users ask of a buffer's rows as a whole."""

    if TYPE_CHECKING:
        maxsize: int
        _meta: Any

        def __getitem__(self, index: Any) -> Any: ...

    @property
    def subbuffer_edges(self) -> NDArray[np.int64]:
        """Where the rings within the storage begin, and where the last ends: ``[0, maxsize]`` for a single buffer."""
        return np.array(getattr(self, "_extend_offset", (0, self.maxsize)), np.int64)

    def get_buffer_indices(self, start: int, stop: int) -> NDArray[np.int64]:
        """The rows from ``start`` up to ``stop``, which may be smaller: then they go over the edge of their ring.

        None where the two are equal.

        :param start: the first row, say of an episode.
        :param stop: one behind the last row.
        :raises ValueError: the two are in different rings, or beyond the storage.

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

    def isnull(self) -> Batch:
        """Where values of the rows are missing, in the order of time; see :meth:`rlfast.data.Batch.isnull`."""
        rows: Batch = self[:]
        return rows.isnull()

    def hasnull(self) -> bool:
        """Whether a value of any row is missing."""
        rows: Batch = self[:]
        return rows.hasnull()

    def set_array_at_key(
        self, seq: NDArray[Any], key: str, index: Any = None, default_value: float | None = None
    ) -> None:
        """Sets a column, or some of its rows; see :meth:`rlfast.data.Batch.set_array_at_key`.

        :param seq: the rows; ``maxsize`` of them, unless ``index`` is given.
        """
        from rlfast.data.batch.batch import Batch

        columns = Batch(_rows=np.empty(self.maxsize, bool))
        if index is not None and key in self._meta:
            columns[key] = np.array(self._meta[key])
        columns.set_array_at_key(seq, key, index, default_value)
        setattr(self._meta, key, columns[key])
