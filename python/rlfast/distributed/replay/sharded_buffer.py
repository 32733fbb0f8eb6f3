"""The replay buffer that a learner samples from: the shards as one."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlfast.data import Batch
from rlfast.distributed.cluster.actors import Actor, ActorLost, Call
from rlfast.distributed.replay.shard import PIECE, Drawn, Level
from rlfast.distributed.replay.top_tree import TopTree, importance_weights
from rlfast.utils.runtime.extras import needed_by

with needed_by("rlfast.distributed.ShardedBuffer"):
    import torch


class DrawnIndex(np.ndarray[Any, np.dtype[np.int64]]):
    """Indices of drawn rows, ``[B]``, which know the draws of the shards that they came from."""

    draws: tuple[tuple[int, int, int], ...] = ()
    """Shard, ticket and number of rows of each draw, in the order of the rows."""


class _Request(NamedTuple):
    """A shard that was asked for rows."""

    shard: int
    probability: float
    """The probability that a draw chose this shard."""
    actor: Actor
    call: Call


class ShardedBuffer:
    """Shards as one replay buffer, for sampling. Collectors add rows to the shards themselves.

    A batch has the rows of one shard after those of another. The rows of the next batches are asked for ahead, so that
    shards draw them while the learner computes.

    :param shards: the actors of the shards.
    :param seed: seed of the draws of shards.
    :param ahead: number of batches that are asked for ahead.
    """

    def __init__(self, shards: Sequence[Actor], *, seed: int, ahead: int = 1) -> None:
        self.shards = [*shards]
        self.top = TopTree(len(self.shards), seed)
        self._ahead = ahead
        self._on_lost: Callable[[int], Actor] | None = None
        self._on_empty: Callable[[], None] | None = None
        self._asked: deque[tuple[int, list[_Request]]] = deque()
        self.updates_lost = 0
        """Number of draws whose priorities could not be updated, as their shard was lost."""

    def __len__(self) -> int:
        return self.top.rows

    def supervise(self, *, on_lost: Callable[[int], Actor], on_empty: Callable[[], None]) -> None:
        """Names who replaces shards that are lost. Without it, a lost shard raises :class:`ActorLost`.

        :param on_lost: called with the number of a shard that was lost; returns the actor of a new one.
        :param on_empty: called where there is no row to draw; returns once there is one.
        """
        self._on_lost, self._on_empty = on_lost, on_empty

    def rows_of(self, shard: int) -> int:
        """Returns the number of rows of a shard, as it has reported last.

        :param shard: its number.
        """
        return self.top.rows_of(shard)

    def note(self, shard: int, level: Level) -> None:
        """Notes how full a shard is.

        :param shard: number of the shard.
        :param level: what it has reported.
        """
        self.top.set(shard, mass=level.mass, rows=level.rows)

    def refresh(self) -> None:
        """Asks all shards how full they are."""
        for number, call in [(number, shard.call("level")) for number, shard in enumerate(self.shards)]:
            self._noted(number, call)

    def _noted(self, shard: int, call: Call) -> None:
        try:
            self.note(shard, call.result())
        except ActorLost:
            self.lose(shard)

    def lose(self, shard: int) -> None:
        """Replaces a shard that was lost, by an empty one.

        :param shard: its number.
        :raises ActorLost: if there is nobody to replace it.
        """
        if self._on_lost is None:
            raise ActorLost(f"replay shard {shard} is gone")
        self.shards[shard] = self._on_lost(shard)
        self.note(shard, Level(0, 0.0))

    # -- sampling ----------------------------------------------------------------------------------------------------

    def sample(self, batch_size: int | None) -> tuple[Batch, DrawnIndex]:
        """Draws rows of all shards.

        :param batch_size: number of rows, at least 1.
        :return: the batch, and the indices of its rows.
        :raises ValueError: if there is no row to draw, or ``batch_size`` is not positive.
        """
        if not batch_size or batch_size < 1:
            raise ValueError(f"shards are sampled a batch at a time: batch_size must be positive, got {batch_size}")
        while self._asked and self._asked[0][0] != batch_size:  # of another size
            self._asked.popleft()
        if not self._asked:
            self._ask(batch_size)
        _, asked = self._asked.popleft()
        parts = self._parts(asked)
        while (missing := batch_size - sum(len(drawn.indices) for *_, drawn in parts)) > 0:  # a shard was lost
            parts += self._parts(self._request(missing))
        while len(self._asked) < self._ahead:
            self._ask(batch_size)
        return self._joined(parts)

    def _ask(self, rows: int) -> None:
        self._asked.append((rows, self._request(rows)))

    def _request(self, rows: int) -> list[_Request]:
        """Asks shards for rows."""
        if not self.top.mass > 0.0 and self._on_empty is not None:
            self._on_empty()
        counts = self.top.draw(rows)
        return [
            _Request(shard, self.top.probability(shard), self.shards[shard], self.shards[shard].call("sample", rows))
            for shard, rows in enumerate(counts.tolist())
            if rows
        ]

    def _parts(self, asked: list[_Request]) -> list[tuple[int, float, Drawn]]:
        parts = []
        for shard, probability, actor, call in asked:
            try:
                drawn = call.result()
            except ActorLost:
                if self.shards[shard] is actor:  # not replaced since
                    self.lose(shard)
                continue
            self.note(shard, drawn.level)
            parts.append((shard, probability, drawn))
        return parts

    def _joined(self, parts: list[tuple[int, float, Drawn]]) -> tuple[Batch, DrawnIndex]:
        batches = [drawn.batch for *_, drawn in parts]
        batch = batches[0] if len(batches) == 1 else Batch.cat(batches)
        indices = np.concatenate([drawn.indices for *_, drawn in parts]).view(DrawnIndex)
        indices.draws = tuple((shard, drawn.ticket, len(drawn.indices)) for shard, _, drawn in parts)
        self._weigh(batch, np.concatenate([probability * drawn.probability for _, probability, drawn in parts]))
        return batch, indices

    def _weigh(self, batch: Batch, probability: NDArray[np.float64]) -> None:
        """Adds importance weights, where rows are drawn by priority."""

    def forget(self) -> None:
        """Drops the batches that were asked for ahead."""
        self._asked.clear()

    # -- files -------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], *, allow_pickle: bool = False) -> None:  # noqa: ARG002
        """Writes the snapshots of all shards to a folder.

        :param path: the folder, which is made.
        :param allow_pickle: ignored: shards have no Python objects.
        :raises OSError: if writing fails.
        """
        folder = Path(path)
        folder.mkdir()
        for number, shard in enumerate(self.shards):
            with (folder / _file_name(number)).open("wb") as file:
                try:
                    size = shard.call("begin_reading").result()
                    for offset in range(0, size, PIECE):
                        file.write(shard.call("read", offset).result())
                    shard.call("end_file").result()
                except ActorLost as error:
                    raise OSError(f"replay shard {number} was lost while it was saved: {error}") from error
                file.flush()
                os.fsync(file.fileno())

    def prepare_restore(self, path: str | os.PathLike[str]) -> Callable[[], None]:
        """Checks the snapshots in a folder. Rows stay as they are until the result is called.

        :param path: the folder of :meth:`save`.
        :return: a function that replaces the rows.
        :raises ValueError: if snapshots are missing, damaged, or of other shards.
        """
        folder = Path(path)
        there = sorted(file.name for file in folder.glob("*.snapshot"))
        if there != [_file_name(number) for number in range(len(self.shards))]:
            raise ValueError(f"{folder} has the snapshots {there}, and this run has {len(self.shards)} shards")
        for number, shard in enumerate(self.shards):
            shard.call("begin_writing").result()
            with (folder / _file_name(number)).open("rb") as file:
                while piece := file.read(PIECE):
                    shard.call("write", piece).result()
            try:
                shard.call("check").result()
            except (TypeError, ValueError, OSError) as error:
                raise ValueError(f"{folder / _file_name(number)} cannot be used: {error}") from error
        return self._restore

    def _restore(self) -> None:
        self.forget()
        for number, call in [(number, shard.call("restore")) for number, shard in enumerate(self.shards)]:
            self.note(number, call.result())


class PrioritizedShardedBuffer(ShardedBuffer):
    """A :class:`ShardedBuffer` whose rows are drawn by priority, with importance weights for the union of the shards.

    Batches that were asked for ahead were drawn before the newest priorities.

    :param shards: see :class:`ShardedBuffer`, also for ``options``.
    :param beta: exponent of the importance weights, at least 0.
    :param largest: called with the largest weight of a batch; returns what the weights are divided by, for learners
        that share a batch.
    """

    def __init__(
        self, shards: Sequence[Actor], *, beta: float, largest: Callable[[float], float] | None = None, **options: Any
    ) -> None:
        super().__init__(shards, **options)
        self.set_beta(beta)
        self._largest = largest
        self._updates: deque[tuple[int, Call]] = deque()

    def set_beta(self, beta: float) -> None:
        """Sets the exponent of the importance weights.

        :param beta: the exponent, at least 0.
        :raises ValueError: if it is negative or NaN.
        """
        if not beta >= 0.0:
            raise ValueError(f"beta must be >= 0, got {beta}")
        self.beta = float(beta)

    def _weigh(self, batch: Batch, probability: NDArray[np.float64]) -> None:
        weights = importance_weights(probability, len(self), self.beta, largest=1.0)
        largest = float(weights.max())
        batch.weight = weights / (largest if self._largest is None else self._largest(largest))

    def update_weight(self, indices: DrawnIndex, error: ArrayLike | torch.Tensor) -> None:
        """Sets priorities from errors, without waiting for the shards.

        :param indices: the array that :meth:`sample` returned.
        :param error: temporal difference errors, one for each row.
        :raises ValueError: if errors are NaN or infinite, or their number differs from that of the rows.
        """
        detached = error.detach().cpu().numpy() if isinstance(error, torch.Tensor) else error
        values = np.abs(np.asarray(detached, np.float64)).reshape(-1)
        if len(values) != len(indices) or not np.isfinite(values).all():
            raise ValueError(f"priorities of {len(indices)} rows need as many finite errors, got {values!r:.200}")
        start = 0
        for shard, ticket, rows in indices.draws:
            self._updates.append(
                (shard, self.shards[shard].call("update_weight", ticket, values[start : start + rows]))
            )
            start += rows
        while len(self._updates) > len(self.shards) * (self._ahead + 1):
            self._finish_update()

    def _finish_update(self) -> None:
        shard, call = self._updates.popleft()
        try:
            self.note(shard, call.result())
        except ActorLost:  # who draws from it next replaces it
            self.updates_lost += 1


def _file_name(shard: int) -> str:
    return f"shard-{shard:04}.snapshot"
