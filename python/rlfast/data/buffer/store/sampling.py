"""Sampling by the methods of a buffer, which subclasses may override."""

from __future__ import annotations

from typing import Any

from rlfast.data.batch.batch import Batch
from rlfast.data.buffer.options.units import NStep, Sequence
from rlfast.data.buffer.store import output_arrays, priorities
from rlfast.data.buffer.store.store import Index


def sample(
    buffer: Any, batch_size: int | None, out: output_arrays.Out | None, *, makes_rows: bool
) -> tuple[Batch, Index]:
    """Draws rows by ``sample_indices``, and reads them by ``__getitem__`` or the unit of the buffer.

    :param out: arrays to be filled; see :meth:`rlfast.data.ReplayBuffer.sample`.
    :param makes_rows: whether the class of the buffer has its own ``__getitem__``.
    :raises ValueError: if ``out`` is given, but batches are not made by the engine.
    """
    unit, rows = buffer._config.unit, buffer._rows
    expands = isinstance(unit, NStep | Sequence)
    if out is not None:
        if expands or makes_rows:
            maker = type(unit).__name__ if expands else f"{type(buffer).__name__}.__getitem__"
            raise ValueError(f"{maker} makes the rows of this buffer's batches itself: sample without out")
        return output_arrays.sample_into(rows, lambda: buffer.sample_indices(batch_size), out)
    indices: Index = buffer.sample_indices(batch_size)
    if not isinstance(unit, NStep | Sequence):
        return buffer[indices], indices
    batch = unit.expand(buffer, indices)
    if rows.core.prioritized:
        batch.weight = priorities.weights(rows, rows.resolve(indices))  # one for each drawn row
    return batch, indices
