"""A replay buffer that several processes write and draw from."""

from __future__ import annotations

import operator
import os
import socket
from collections.abc import Iterable, Mapping
from itertools import islice
from math import ceil
from multiprocessing import reduction
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlfast import _core as engine
from rlfast.data.batch.batch import Batch
from rlfast.data.buffer.options.samplers import Prioritized, Uniform
from rlfast.data.buffer.options.units import NStep, Transition, Unit
from rlfast.data.buffer.shared.description import Description, check_options, check_parts, columns_of
from rlfast.data.buffer.shared.writer import SharedWriter
from rlfast.data.buffer.store.priorities import checked_beta, magnitudes, when_prioritized
from rlfast.data.plain_data import WRONG_DATA, summary
from rlfast.utils.arguments.checks import count_of
from rlfast.utils.runtime.seeding import draw_seed

Index = NDArray[np.int64]
_UNIFORM, _TRANSITION = Uniform(), Transition()
_GREETING = b"rlfast-replay"
_READINGS = 100
"""How often all rows are read again of which some were overwritten meanwhile."""


class DrawnRows(np.ndarray[Any, np.dtype[np.int64]]):
    """The indices of a sample, ``[B]``, with what returns over one step need of its rows, which may be gone by then."""

    rew: NDArray[np.float64]
    terminated: NDArray[np.bool_]


class SharedReplayBuffer:
    """A vector buffer in memory without a name, which several processes map: actors write it, learners draw from it.

    Each ring has one writer, :meth:`writer`. Nobody waits for anybody: a process that is killed at any moment loses the
    row that it is writing, and the others go on. A sample has no torn rows: rows that are overwritten while they are
    copied are drawn again. Rows belong to the memory, which lives as long as a process has it. Priorities, random draws
    and weights belong to the object that draws; a row gets the largest priority when that object first sees it.

    The object is handed to other processes as an argument of ``multiprocessing.Process`` (by fork, spawn or
    forkserver) or through a ``multiprocessing.Queue`` or ``Pipe``, or by a Unix socket (:meth:`send`,
    :meth:`receive`). There it has the options that it was made with, and the same seed.

    A batch equals that of a :class:`VectorReplayBuffer` with the same rows and options. The options are ``stack_num``,
    both samplers, and the units ``Transition``, ``FrameStack`` and ``NStep``. All columns are numbers whose shapes and
    dtypes the example fixes, each row has its ``obs_next``, and observations are stored as they are, twice. Policies
    that sum rewards over several steps need ``unit=NStep(n, gamma)``, and their own number of steps at 1. There are no
    sequences, no hindsight, no recurrent policies, no files.

    :param total_size: the largest number of rows of all rings, rounded up to a multiple of ``buffer_num``.
    :param buffer_num: number of rings, one for each environment of all actors.
    :param example: one row, which fixes the columns; its values do not matter.
    :param stack_num: number of frames in a sampled ``obs`` and ``obs_next``, at least 1.
    :param sampler: ``Uniform()`` or ``Prioritized(alpha, beta)``.
    :param unit: ``Transition()``, ``FrameStack(n)`` or ``NStep(n, gamma)``.
    :param seed: seed of the draws; None draws one from ``np.random``.
    :param options: options of other buffers, which must have their defaults.
    :raises KeyError: if the example lacks a field.
    :raises MemoryError: if there is no room for the rows.
    :raises TypeError: if an argument is of another type.
    :raises ValueError: if a shared buffer lacks an option, or the example has Python objects.

    >>> from multiprocessing import get_context
    >>> from rlfast.data import Batch, SharedReplayBuffer
    >>> row = Batch(obs=[0.0, 0.0], act=0, rew=0.0, terminated=False, truncated=False, obs_next=[0.0, 0.0])
    >>> buf = SharedReplayBuffer(100, 2, row, seed=0)
    >>> def act(buf, k):
    ...     with buf.writer([k]) as writer:
    ...         for i in range(5):
    ...             _ = writer.add(Batch.stack([row]))
    >>> actors = [get_context("fork").Process(target=act, args=(buf, k)) for k in range(2)]
    >>> for actor in actors:
    ...     actor.start()
    >>> for actor in actors:
    ...     actor.join()
    >>> batch, indices = buf.sample(4)
    >>> len(buf), batch.obs.shape
    (10, (4, 2))
    """

    _core: Any

    def __init__(
        self,
        total_size: int,
        buffer_num: int,
        example: Batch | Mapping[str, Any],
        *,
        stack_num: int = 1,
        sampler: Uniform | Prioritized = _UNIFORM,
        unit: Unit = _TRANSITION,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        check_options(options)
        total_size = count_of("total_size", total_size, rounded=ceil, least=1)
        buffer_num = count_of("buffer_num", buffer_num, least=1)
        stack_num, sampler, unit = check_parts(stack_num, sampler, unit)
        columns = columns_of(example)
        description = Description(columns, stack_num, sampler, unit, draw_seed(seed))
        capacity = -(-total_size // buffer_num)
        memory = _memory_class().create(columns, buffer_num, capacity, description.to_text(), Batch)
        self._attach(memory, description)

    def _attach(self, memory: engine.RingMemory, description: Description) -> None:
        self._memory, self._description = memory, description
        sampler, unit = description.sampler, description.unit
        options: dict[str, Any] = {"stack_num": description.stack_num, "seed": description.seed}
        if isinstance(sampler, Prioritized):
            options |= {"alpha": sampler.alpha, "beta": sampler.beta, "weight_norm": sampler.weight_norm}
        if isinstance(unit, NStep):
            options |= {"n_step": unit.n_step, "gamma": unit.gamma}
        self._core = engine.RingReader(memory, description.columns, batch=Batch, **options)
        self._sums_rewards = isinstance(unit, NStep)

    # -- handing over ------------------------------------------------------------------------------------------------

    @classmethod
    def from_file(cls, file: int) -> Self:
        """Returns the buffer whose memory a file descriptor names.

        :param file: the descriptor, which may be closed afterwards.
        :raises OSError: if the descriptor is not open.
        :raises TypeError: if it is not an integer.
        :raises ValueError: if its file is no shared buffer, or one of another version.
        """
        memory = _memory_class().attach(operator.index(file))
        buffer = cls.__new__(cls)
        description = Description.of_text(memory.text)
        try:
            buffer._attach(memory, description)
        except WRONG_DATA as error:
            raise ValueError(f"the shared replay buffer is damaged: {summary(error)}") from error
        return buffer

    def fileno(self) -> int:
        """Returns the descriptor of the memory's file, which is open as long as this object lives."""
        return self._memory.fileno()

    def send(self, connection: socket.socket) -> None:
        """Hands the buffer to the process at the other end of a Unix socket, which calls :meth:`receive`.

        :param connection: the socket.
        :raises OSError: if the system refuses.
        """
        socket.send_fds(connection, [_GREETING], [self.fileno()])

    @classmethod
    def receive(cls, connection: socket.socket) -> Self:
        """Returns the buffer that the process at the other end of a Unix socket hands over by :meth:`send`.

        :param connection: the socket.
        :raises OSError: if the system refuses.
        :raises ValueError: if something else was sent.
        """
        message, files, _, _ = socket.recv_fds(connection, len(_GREETING), 1)
        try:
            if message != _GREETING or len(files) != 1:
                raise ValueError(f"a shared replay buffer was expected, got {message!r} and {len(files)} files")
            return cls.from_file(files[0])
        finally:
            for file in files:
                os.close(file)

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (type(self), reduction.DupFd(self.fileno()))

    # -- writing -----------------------------------------------------------------------------------------------------

    def writer(self, buffer_ids: Iterable[int] | int | None = None) -> SharedWriter:
        """Returns the writer of some rings, which is the buffer of this process's collector.

        A ring has one writer at a time. If the process that wrote a ring has ended, another one may take it over: the
        episode that was running there is truncated at its newest row.

        :param buffer_ids: numbers of the rings, one for each environment of the collector; default all.
        :raises IndexError: if there is no such ring.
        :raises TypeError: if a number is not an integer.
        :raises ValueError: if a running process, perhaps this one, writes one of the rings.
        """
        if buffer_ids is None:
            rings = list(range(self.buffer_num))
        else:
            given = buffer_ids if isinstance(buffer_ids, Iterable) else [buffer_ids]
            # One more than there are is out of range or a repetition, which is refused below, however many follow.
            rings = [operator.index(ring) for ring in islice(given, self.buffer_num + 1)]
        if bad := [ring for ring in rings if not 0 <= ring < self.buffer_num]:
            raise IndexError(f"buffer id {bad[0]} is out of range: there are {self.buffer_num} buffers")
        return SharedWriter(self._memory, self._description.columns, rings)

    # -- reading -----------------------------------------------------------------------------------------------------

    @property
    def maxsize(self) -> int:
        """The largest number of rows."""
        return self._memory.rings * self._memory.capacity

    @property
    def buffer_num(self) -> int:
        """Number of rings."""
        return self._memory.rings

    @property
    def subbuffer_edges(self) -> Index:
        """The first row of each ring, and the end of the last ring."""
        return np.arange(self.buffer_num + 1, dtype=np.int64) * self._memory.capacity

    @property
    def stack_num(self) -> int:
        """Number of frames in a sampled ``obs``."""
        return self._description.stack_num

    @property
    def nbytes(self) -> int:
        """Bytes of the memory, of which those count that were written."""
        return self._memory.nbytes

    @property
    def stale_updates(self) -> int:
        """Number of priorities that were ignored because their row had been overwritten."""
        return int(self._core.stale_updates)

    def __len__(self) -> int:
        return int(self._core.sizes().sum())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} of {self.maxsize} rows in {self.buffer_num} rings)"

    def sample(self, batch_size: int | None) -> tuple[Batch, Index]:
        """Draws rows with replacement, and returns them and their indices.

        :param batch_size: number of rows; 0 or None for all rows, ring by ring, oldest first.
        :return: a batch of new arrays, and int64 ``[B]``.
        :raises ValueError: if there is no row to draw, or rows are overwritten faster than they are copied.
        """
        count = 0 if batch_size is None else count_of("batch_size", batch_size, least=0)
        batch, indices = self._core.sample(count) if count else self._all()
        if not self._sums_rewards:
            drawn = indices.view(DrawnRows)
            drawn.rew, drawn.terminated = batch.rew, batch.terminated
            return batch, drawn
        return batch, indices

    def _all(self) -> tuple[Batch, Index]:
        for _ in range(_READINGS):
            indices = self._core.live()
            try:
                return self._core.take(indices), indices
            except IndexError:
                continue  # a row was overwritten meanwhile
        raise ValueError("rows are overwritten faster than all can be copied: sample some of them")

    def sample_indices(self, batch_size: int | None) -> Index:
        """Draws indices of rows, which may be overwritten before they are read: :meth:`sample` reads them at once.

        :param batch_size: number of rows; 0 or None for all rows, ring by ring, oldest first.
        :return: int64 ``[B]``.
        :raises ValueError: if there is no row to draw.
        """
        count = 0 if batch_size is None else count_of("batch_size", batch_size, least=0)
        drawn: Index = self._core.draw(count) if count else self._core.live()
        return drawn

    def __getitem__(self, index: ArrayLike) -> Batch:
        """Returns rows as new arrays.

        :param index: indices of rows. An array from :meth:`sample` or :meth:`sample_indices` stands for the rows that
            were drawn, other integers for the rows that are there now.
        :raises IndexError: if there is no such row, or it was overwritten.
        """
        rows = np.asarray(index)
        taken: Batch = self._core.take(rows.reshape(-1) if rows.ndim != 1 else rows)
        return taken[0] if rows.ndim == 0 else taken

    def nstep(self, indices: Index, n_step: int, gamma: float) -> tuple[NDArray[Any], NDArray[np.float64], Index]:
        """Returns sums of rewards over one step for rows that :meth:`sample` drew. Policies call this.

        :param indices: the indices that :meth:`sample` returned.
        :param n_step: 1; sums over more steps need ``unit=NStep(n, gamma)``, as later rows may be overwritten by now.
        :param gamma: the discount.
        :return: rewards, discounts (0 after a terminal state) and the indices.
        :raises ValueError: if ``n_step`` is not 1, or the indices are not those of a sample.
        """
        if n_step != 1:
            raise ValueError(
                f"a shared buffer sums rewards when it samples: make it with unit=NStep({n_step}, {gamma}), and the "
                "policy with 1 step"
            )
        if not isinstance(indices, DrawnRows):
            raise ValueError("rows of a shared buffer may be overwritten: pass the very indices that sample returned")
        return indices.rew, np.where(indices.terminated, 0.0, float(gamma)), indices

    # -- priorities --------------------------------------------------------------------------------------------------

    @when_prioritized
    def update_weight(self, index: Index, new_weight: ArrayLike) -> None:
        """Sets priorities from temporal difference errors. Rows that were overwritten are left out, and counted in
        :attr:`stale_updates`.

        :param index: the indices that :meth:`sample` returned, ``[B]``.
        :param new_weight: errors, ``[B]``, or one for all; an array or a tensor.
        :raises IndexError: if there is no such row.
        :raises ValueError: if errors are NaN or infinite, or their number differs. No priority is changed then.
        """
        values = magnitudes(new_weight)
        rows = np.asarray(index)  # the engine recognises the memory of a sample's indices
        self._core.update_priority(rows, values if values.size != 1 else np.resize(values, rows.size))

    @when_prioritized
    def set_beta(self, beta: float) -> None:
        """Sets the exponent of importance weights, in this process.

        :param beta: the exponent, at least 0.
        :raises ValueError: if it is negative or NaN.
        """
        self._core.beta = checked_beta(beta)


def _memory_class() -> type[engine.RingMemory]:
    try:
        return engine.RingMemory
    except AttributeError:
        raise OSError("memory can be shared on Linux and macOS, not on this system") from None


def _received(kind: type[SharedReplayBuffer], handed: Any) -> SharedReplayBuffer:
    """Returns the buffer that was pickled in another process."""
    file = handed.detach()
    try:
        return kind.from_file(file)
    finally:
        os.close(file)
