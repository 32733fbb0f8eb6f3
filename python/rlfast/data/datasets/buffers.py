"""Buffers, and snapshots of them, as datasets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rlfast.data.buffer.base import ReplayBuffer
from rlfast.data.datasets.parts import Part, Source, Writer, cut_off, ranges, rows_at_once
from rlfast.utils import tree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FLAGS = ["rew", "terminated", "truncated"]


class BufferSource(Source):
    """The rows of a buffer, ring by ring, oldest first.

    The episode that is running in a ring counts as truncated at its newest row.

    :param buffer: the buffer.
    """

    def __init__(self, buffer: ReplayBuffer) -> None:
        super().__init__(len(buffer), stack_num=buffer.stack_num)
        self._buffer = buffer

    def parts(self) -> Iterator[Part]:
        """Returns all rows, in order."""
        return self._read(None)

    def flags(self) -> Iterator[Part]:
        """Returns ``rew``, ``terminated`` and ``truncated`` of all rows, in order."""
        return self._read(_FLAGS)

    def _read(self, keys: list[str] | None) -> Iterator[Part]:
        store = self._buffer._store  # noqa: SLF001 (the rows without copies for each field)
        for ring in range(len(store.capacities)):
            rows = store.live(ring)
            if not len(rows):
                continue
            step = rows_at_once(_plain(store.take(rows[:1], keys, 1)))
            for place in ranges(len(rows), step):
                part = _plain(store.take(rows[place], keys, 1))
                part.pop("done", None)
                if place.stop == len(rows):
                    cut_off(part)
                yield part


def _plain(fields: dict[str, Any]) -> Part:
    """Returns fields as arrays in nested dicts, without empty ones."""
    plain = {key: tree.storable(value) for key, value in fields.items()}
    return {key: value for key, value in plain.items() if not isinstance(value, dict) or value}


class SnapshotWriter(Writer):
    """A file of :meth:`ReplayBuffer.save` that holds a buffer of one ring.

    Its rows are in a scratch file in the same folder until it is complete.

    :param path: the file.
    :param length: number of rows that will come.
    :param stack_num: see :class:`Source`.
    """

    def __init__(self, path: Path, length: int, stack_num: int = 1) -> None:
        super().__init__(path, length, stack_num)
        self._buffer = ReplayBuffer(length, stack_num, seed=0, storage=str(path.parent))

    def write(self, part: Part) -> None:
        """Appends rows.

        :param part: the rows.
        """
        append(self._buffer, part)

    def finish(self) -> None:
        """Completes the dataset, and closes its files."""
        self._buffer.save(self.path)
        self.abandon()

    def abandon(self) -> None:
        """Closes the files of a dataset that will not be completed."""
        self._buffer = ReplayBuffer(0)


def append(buffer: ReplayBuffer, part: Part) -> None:
    """Appends the rows of a part to a buffer of one ring.

    :param buffer: the buffer.
    :param part: the rows.
    """
    buffer._core.add(part, np.zeros(len(part["rew"]), np.int64))  # noqa: SLF001 (many rows in one call)
