"""A part of a replay buffer, in an actor of its own."""

from __future__ import annotations

import os
import tempfile
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlfast.data import Batch, PrioritizedVectorReplayBuffer, ReplayBuffer, VectorReplayBuffer
from rlfast.data.buffer.options.units import Unit

PIECE = 32 << 20
"""Bytes of a snapshot that travel at once."""

_REMEMBERED = 256
"""Samples whose priorities may still be updated. Others were dropped by a learner that is gone."""


@dataclass(frozen=True, kw_only=True)
class ShardConfig:
    """How a shard is made."""

    rows: int
    """The largest number of rows."""
    rings: int
    """Number of ring buffers: one for each environment whose rows come here."""
    seed: int
    """Seed of the draws."""
    unit: Unit
    """What a drawn row is expanded to. Learners cannot read other rows, so ``NStep`` for sums of rewards."""
    alpha: float | None = None
    """Exponent of the priorities; None for uniform draws."""
    options: dict[str, Any] = field(default_factory=dict)
    """Further arguments of the buffer."""


class Level(NamedTuple):
    """How full a shard is."""

    rows: int
    mass: float
    """The sum of priorities to the power of alpha, or the number of rows."""


class Drawn(NamedTuple):
    """Rows that a shard has drawn."""

    batch: Batch
    indices: NDArray[np.int64]
    """Their indices in the shard."""
    probability: NDArray[np.float64]
    """The probability of each of them among the rows of the shard."""
    ticket: int
    """A number that names this draw, for :meth:`Shard.update_weight`."""
    level: Level


class Shard:
    """A vector buffer, whose rings are filled by collectors, and drawn from by learners. It is the object of an actor.

    :param config: how it is made.
    """

    def __init__(self, config: ShardConfig) -> None:
        self._config = config
        self.buffer = self._make()
        self._drawn: OrderedDict[int, NDArray[np.int64]] = OrderedDict()
        self._tickets = 0
        self._file: Path | None = None

    def _make(self) -> ReplayBuffer:
        config = self._config
        given: dict[str, Any] = {"seed": config.seed, "unit": config.unit, **config.options}
        if config.alpha is None:
            return VectorReplayBuffer(config.rows, config.rings, **given)
        return PrioritizedVectorReplayBuffer(config.rows, config.rings, alpha=config.alpha, beta=1.0, **given)

    # -- rows --------------------------------------------------------------------------------------------------------

    def insert(self, rows: VectorReplayBuffer, first_ring: int, begins: bool = False) -> Level:
        """Appends rows.

        :param rows: a buffer with a ring for each environment, which is sent as it is: it has each observation once.
        :param first_ring: number of the ring here that gets the rows of its first ring.
        :param begins: whether the episodes that are running in these rings are over, as their collector was replaced.
        :return: how full the shard is.
        """
        rings = np.arange(first_ring, first_ring + rows.buffer_num)
        if begins and len(self.buffer):
            self.buffer.close_episodes(rings)
        indices = rows.sample_indices(0)
        if len(indices):
            owner = np.searchsorted(rows.subbuffer_edges, indices, side="right") - 1
            self.buffer.add(rows[indices], rings[owner])
        return self.level()

    def sample(self, rows: int) -> Drawn:
        """Draws rows.

        :param rows: how many.
        :raises ValueError: if there is no row.
        """
        batch, indices = self.buffer.sample(rows)
        if self._config.alpha is None:
            probability = np.full(rows, 1.0 / len(self.buffer))
        else:
            tree = self.buffer.weight
            probability = tree[np.asarray(indices)] / tree.reduce()
            self._tickets += 1
            self._drawn[self._tickets] = indices
            if len(self._drawn) > _REMEMBERED:
                self._drawn.popitem(last=False)
        return Drawn(batch, np.asarray(indices), probability, self._tickets, self.level())

    def update_weight(self, ticket: int, error: NDArray[np.floating]) -> Level:
        """Sets the priorities of rows that were drawn. Rows that were overwritten since keep theirs.

        :param ticket: the number of the draw. One that is forgotten is ignored.
        :param error: temporal difference errors, one for each row of the draw.
        :return: how full the shard is.
        """
        indices = self._drawn.pop(ticket, None)
        if indices is not None:
            self.buffer.update_weight(indices, error)
        return self.level()

    def level(self) -> Level:
        """Returns how full the shard is."""
        rows = len(self.buffer)
        return Level(rows, float(rows) if self._config.alpha is None else self.buffer.weight.reduce())

    def ready(self) -> bool:
        """Returns True; whoever waits for it knows that the memory is there."""
        return True

    def process(self) -> int:
        """Returns the number of the process that the shard is in."""
        return os.getpid()

    # -- snapshots, in pieces ----------------------------------------------------------------------------------------

    def begin_reading(self) -> int:
        """Writes a snapshot to a file, and returns its size in bytes."""
        self.end_file()
        self._file = _temporary_file()
        self.buffer.save(self._file)
        return self._file.stat().st_size

    def read(self, offset: int) -> bytes:
        """Returns a piece of the snapshot.

        :param offset: the first byte of the piece.
        """
        with self._open("rb") as file:
            file.seek(offset)
            return bytes(file.read(PIECE))

    def begin_writing(self) -> None:
        """Begins a new snapshot."""
        self.end_file()
        self._file = _temporary_file()

    def write(self, piece: bytes) -> None:
        """Appends a piece to the snapshot.

        :param piece: the piece.
        """
        with self._open("ab") as file:
            file.write(piece)

    def check(self) -> None:
        """Checks the snapshot that was written here; nothing is changed.

        :raises ValueError: if it is not one of such a shard.
        """
        self._load()

    def restore(self) -> Level:
        """Takes the rows of the snapshot that was written here.

        :return: how full the shard is.
        :raises ValueError: if it is not one of such a shard. Nothing is changed then.
        """
        self.buffer = self._load()
        self._drawn.clear()
        self.end_file()
        return self.level()

    def end_file(self) -> None:
        """Removes the file of the snapshot."""
        if self._file is not None:
            self._file.unlink(missing_ok=True)
            self._file = None

    def _load(self) -> ReplayBuffer:
        with self._open("rb") as file:
            loaded = type(self.buffer).load(file.name)
        sizes = [(one.maxsize, len(one.subbuffer_edges) - 1) for one in (loaded, self.buffer)]
        if sizes[0] != sizes[1]:
            raise ValueError(
                "the snapshot has {} rows in {} rings, this shard has {} in {}".format(*sizes[0], *sizes[1])
            )
        return loaded

    def _open(self, mode: str) -> Any:
        if self._file is None:
            raise RuntimeError("no snapshot was begun: call begin_reading or begin_writing first")
        return self._file.open(mode)

    def close(self) -> None:
        """Removes what is left on disk."""
        self.end_file()


def _temporary_file() -> Path:
    descriptor, name = tempfile.mkstemp(prefix="rlfast-shard-", suffix=".snapshot")
    os.close(descriptor)
    return Path(name)
