"""The part of a shared buffer that one process writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rlfast import _core
from rlfast.data._leaves import Column, dotted
from rlfast.data.batch.batch import Batch
from rlfast.data.buffer.shared.description import Columns
from rlfast.data.buffer.store.store import Added
from rlfast.data.schema import Schema, nest

_OPTIONAL = ("info", "policy")
"""Fields that are left out of rows if the example has none of their values."""


class SharedWriter:
    """Rings of a :class:`SharedReplayBuffer` that this process writes, as the buffer of a collector.

    It is made by :meth:`SharedReplayBuffer.writer`. Ring ``i`` of the writer takes the rows of environment ``i`` of the
    collector. Its methods are those of a :class:`VectorReplayBuffer` that collectors call; rows are read through the
    shared buffer.

    :param memory: the memory.
    :param columns: its columns.
    :param rings: numbers of the rings in the shared buffer.
    """

    def __init__(self, memory: _core.RingMemory, columns: Columns, rings: Sequence[int]) -> None:
        self._writer = _core.RingWriter(memory, columns, rings, Batch)
        self._rings = np.array(rings, np.int64)
        self._schema = Schema({path: Column(dtype, shape) for path, dtype, shape in columns})
        tops = {path[0] for path, _, _ in columns}
        self._strips = False  # whether rows have brought values that are left out
        self._left_out = {name for name in _OPTIONAL if name not in tops}
        self.maxsize = memory.capacity * len(self._rings)

    @property
    def buffer_num(self) -> int:
        """Number of rings."""
        return len(self._rings)

    @property
    def rings(self) -> NDArray[np.int64]:
        """The numbers of the rings in the shared buffer."""
        return self._rings.copy()

    def add(self, batch: Batch | Mapping[str, Any], buffer_ids: NDArray[Any] | list[int] | None = None) -> Added:
        """Appends one row to each of several rings. Other processes can draw it as soon as this returns.

        :param batch: rows with the columns of the example, with a leading axis of length ``len(buffer_ids)``. ``info``
            and ``policy`` are left out if the example has no values there.
        :param buffer_ids: for each row, the number of a ring of this writer; default all, in order.
        :return: ``(index, episode_return, episode_length, episode_start)``, with one element for each row. Indices are
            those of the shared buffer.
        :raises IndexError: if there is no such ring.
        :raises KeyError: if a field is missing.
        :raises RuntimeError: in a forked child, if its parent writes these rings.
        :raises TypeError: if a value cannot be converted to the dtype of its column without loss.
        :raises ValueError: if a shape differs from that of the example, or a field is not in the example. After any
            error, the buffer is unchanged.
        """
        fields: Any = batch.__dict__ if isinstance(batch, Batch) else dict(batch)
        if self._strips:
            fields = {name: fields[name] for name in fields if name not in self._left_out}
        try:
            return self._writer.add(fields, buffer_ids)
        except _core.SchemaMismatch:
            self._strips = bool(self._left_out)
        rows = self.buffer_num if buffer_ids is None else len(buffer_ids)
        return self._writer.add(self._conformed(fields, rows), buffer_ids)

    def _conformed(self, fields: Mapping[str, Any], rows: int) -> dict[str, Any]:
        """Returns rows converted to the columns."""
        kept = {name: fields[name] for name in fields if name not in self._left_out}
        leaves, added = self._schema.conform(kept, rows)
        if unknown := [*added.numbers, *added.objects]:
            raise ValueError(
                f"{', '.join(map(dotted, unknown))}: not in the example that this shared buffer was made with, which "
                f"has {', '.join(map(dotted, self._schema.numbers))}"
            )
        return nest(leaves)

    def close_episodes(self, buffer_ids: NDArray[Any] | list[int] | None = None) -> None:
        """Ends running episodes as truncated at their newest row, for environments that are reset within an episode.

        :param buffer_ids: numbers of the rings whose episodes end; default all.
        :raises IndexError: if there is no such ring.
        """
        self._writer.close_episodes(buffer_ids)

    def reset(self, keep_statistics: bool = False) -> None:
        """Removes all rows of this writer's rings; those of other writers stay.

        :param keep_statistics: whether running episodes keep their return and length so far.
        """
        self._writer.reset(bool(keep_statistics))

    def close(self) -> None:
        """Lets another process write these rings. Nothing can be added any more; the rows stay."""
        self._writer.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
