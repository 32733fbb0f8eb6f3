"""The replay buffer."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as AbstractSequence
from functools import partial
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from rlfast._core import SchemaMismatch
from rlfast.compat.buffers import TianshouView
from rlfast.data._leaves import dotted
from rlfast.data.batch.batch import Batch
from rlfast.data.buffer.files import FileMethods
from rlfast.data.buffer.options.config import Config, ignore_unknown
from rlfast.data.buffer.options.relabelling import Hindsight
from rlfast.data.buffer.options.samplers import Prioritized, Uniform
from rlfast.data.buffer.options.units import Unit
from rlfast.data.buffer.store import priorities, reading, writing
from rlfast.data.buffer.store.column_batch import ColumnBatch
from rlfast.data.buffer.store.priorities import PriorityMethods
from rlfast.data.buffer.store.row_range import IndexLike, RowRange
from rlfast.data.buffer.store.store import Added, Index, Store
from rlfast.utils.arguments.checks import count_of
from rlfast.utils.runtime.seeding import draw_seed

TBuffer = TypeVar("TBuffer", bound="ReplayBuffer")
_SHOWN = 20  # columns in the repr of a buffer
_DERIVED = frozenset(
    {
        "_core",
        "_config",
        "_rows",
        "_add",
        "_quick_add",
        "_draws_whole_rows",
        "_quick_sample",
        "append",
        "_whole",
        "_base",
    }
)
"""Attributes that follow from the store and the ring, also in older pickles. They are not pickled."""


class MalformedBufferError(RuntimeError):
    """The rows of a buffer are inconsistent."""


class ReplayBuffer(FileMethods, PriorityMethods, TianshouView):
    """A ring of transitions, of any nested structure, shapes and dtypes.

    The first row defines the columns. ``obs_next`` is stored only where it differs from the next row's ``obs``, so
    observations are stored once and exactly. ``buf.obs``, ``buf.rew``, ... are whole columns; ``buf[index]`` and
    :meth:`sample` return new arrays.

    A subclass may override :meth:`add`, :meth:`append`, :meth:`sample`, :meth:`sample_indices`, ``__getitem__``,
    :meth:`get`, :meth:`update` and :meth:`reset`, which call each other as their names say. An instance's own
    attributes of these names are not noticed.

    :param size: the largest number of rows.
    :param stack_num: number of frames in a sampled ``obs`` and ``obs_next``, at least 1; 1 is no stacking.
    :param ignore_obs_next: do not store ``obs_next``, but of the last rows of episodes. When read, it is the ``obs`` of
        the next row, and of the newest row of a running episode its own ``obs``.
    :param save_only_last_obs: store only the last frame of ``obs`` and ``obs_next`` that are added as stacks,
        ``[frames, ...]``.
    :param sample_avail: draw only rows whose frame stack lies within their episode.
    :param seed: seed of the buffer's random streams; None draws one from ``np.random``.
    :param storage: ``"ram"``; ``"lz4"`` or ``"zstd"`` to pack pictures (and stacks of frames) in RAM once they are
        behind the newest, exactly and to a fraction of their bytes; or a folder for columns in memory-mapped files.
        Copies of a buffer in a folder are in RAM.
    :param sampler: ``Uniform()`` or ``Prioritized(alpha, beta)``.
    :param unit: the unit that a drawn row is expanded to: ``Transition()``, ``FrameStack(n)``, ``NStep(n, gamma)`` or
        ``Sequence(length, burn_in)``.
    :param relabel: ``Hindsight(compute_reward_fn, horizon)``, or None.
    :param kwargs: ignored, with a warning.
    :raises AssertionError: if ``stack_num`` is less than 1.
    :raises ValueError: if ``size`` is negative.
    :raises TypeError: if ``size`` is not a number.

    >>> from rlfast.data import Batch, ReplayBuffer
    >>> buf = ReplayBuffer(size=4, seed=0)
    >>> for i in range(6):
    ...     index, ep_rew, ep_len, ep_start = buf.add(
    ...         Batch(obs=i, act=0, rew=1.0, terminated=i == 5, truncated=False, obs_next=i + 1)
    ...     )
    >>> len(buf), ep_rew, ep_len
    (4, array([6.]), array([6]))
    >>> buf.obs
    array([4, 5, 2, 3])
    >>> batch, indices = buf.sample(8)
    >>> batch.obs.shape
    (8,)

    Sampler, unit and relabelling can be combined freely: sequences with burn-in, drawn by priority, with hindsight
    goals.

    >>> from rlfast.data import Hindsight, Prioritized, Sequence
    >>> def reward(achieved, desired):
    ...     return -(achieved != desired).any(-1).astype(float)
    >>> buf = ReplayBuffer(
    ...     100,
    ...     sampler=Prioritized(alpha=0.6, beta=0.4),
    ...     unit=Sequence(length=4, burn_in=2),
    ...     relabel=Hindsight(reward, horizon=50),
    ...     seed=0,
    ... )
    >>> for i in range(20):
    ...     obs, obs_next = (dict(observation=[j], achieved_goal=[j], desired_goal=[20]) for j in (i, i + 1))
    ...     index = buf.append(obs=obs, act=0, rew=-1.0, terminated=i == 19, truncated=False, obs_next=obs_next)
    >>> batch, indices = buf.sample(8)
    >>> batch.obs.observation.shape, batch.mask.shape, batch.weight.shape
    ((8, 6, 1), (8, 6), (8,))
    >>> buf.update_weight(indices, abs(batch.rew).sum(-1))
    """

    _none_is_all: ClassVar[bool] = False  # whether sample_indices(None) returns all rows
    _sampler_kind: ClassVar[type] = object  # the class of the sampler that a file for this class must have
    _adds: ClassVar[bool] = True  # whether rows are added, and read after a draw, by the methods of this class:
    _reads: ClassVar[bool] = True  # then the engine does several of their steps in one call
    options: dict[str, Any]

    def __init__(
        self,
        size: int,
        stack_num: int = 1,
        ignore_obs_next: bool = False,
        save_only_last_obs: bool = False,
        sample_avail: bool = False,
        *,
        seed: int | None = None,
        storage: str = "ram",
        sampler: Uniform | Prioritized = Config.sampler,
        unit: Unit = Config.unit,
        relabel: Hindsight | None = None,
        **kwargs: Any,
    ) -> None:
        ignore_unknown(self, kwargs)
        size = count_of("size", size, rounded=int, least=0)
        config = Config(stack_num, ignore_obs_next, save_only_last_obs, sample_avail, sampler, unit, relabel)
        self._setup([size], config.normalized(), draw_seed(seed), storage)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._adds = (cls.add, cls.append) == (ReplayBuffer.add, ReplayBuffer.append)
        reading_methods = (cls.sample_indices, cls.__getitem__, cls.get)
        cls._reads = reading_methods == (ReplayBuffer.sample_indices, ReplayBuffer.__getitem__, ReplayBuffer.get)

    # -- making ------------------------------------------------------------------------------------------------------
    def _setup(
        self, capacities: list[int], config: Config, seed: int, storage: str, buffers: AbstractSequence[Any] = ()
    ) -> None:
        """Makes the storage, and makes ``buffers``, one for each ring of a manager, parts of it."""
        assert self._is_manager or not buffers
        self._attach(Store(capacities, config, seed, storage), 0)
        self.options = self._options()

    def _options(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return self._config.options()

    def _attach(self, store: Store, ring: int | None) -> None:
        """Makes a ring of a store, or with None all rings, this buffer's rows."""
        self._rows = RowRange(store, ring)
        self._store, self._config, self._core = store, store.config, store.core
        self.__dict__["maxsize"] = self._rows.maxsize
        cuts = store.config.save_only_last_obs
        self._draws_whole_rows = self._reads and self._rows.transitions
        self._add = partial(writing.add_last_frames, self._core) if cuts else self._core.add
        self.__dict__.pop("append", None)
        if self._adds and len(store.capacities) == 1 and not cuts:
            self.__dict__["append"] = self._core.append  # spares a Python call for each row

    def __getstate__(self) -> dict[str, Any]:
        state = {key: value for key, value in self.__dict__.copy().items() if key not in _DERIVED}
        return state | {"_ring": self._rows.ring, "_stack_num": self._rows.stack_num}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({key: value for key, value in state.items() if key not in _DERIVED})
        ring, stack_num = (self.__dict__.pop(key) for key in ("_ring", "_stack_num"))
        self._attach(self._store, ring)
        self._rows.stack_num = stack_num

    # -- attributes --------------------------------------------------------------------------------------------------
    def __getattr__(self, key: str) -> Any:
        if "_store" not in self.__dict__:
            raise AttributeError(key)  # during __init__ or unpickling
        try:
            return self._store.column(key, self._rows.span)
        except KeyError:
            raise AttributeError(f"{type(self).__name__!r} has no attribute or stored field {key!r}") from None

    def __setattr__(self, key: str, value: object) -> None:
        assert key not in self._reserved_keys, f"key '{key}' is reserved and cannot be assigned"
        if key == "maxsize" and value != self.__dict__.get(key, value):
            raise AttributeError("maxsize is fixed: make a buffer of another size, and update it with this one")
        object.__setattr__(self, key, value)

    def _column_batch(self) -> Any:
        return ColumnBatch(self)

    def __repr__(self) -> str:
        schema = self._store.schema
        columns = [f"{dotted(path)}: {column.dtype}{list(column.shape)}" for path, column in schema.columns().items()]
        if len(columns) > _SHOWN:
            columns[_SHOWN:] = [f"{len(columns) - _SHOWN} more columns"]
        return f"{type(self).__name__}({', '.join([f'{len(self)} of {self.maxsize} rows', *columns])})"

    @property
    def nbytes(self) -> int:
        """Bytes of the rows in memory or on disk, without object leaves; those of all rings under a manager."""
        return self._core.nbytes()

    @property
    def stack_num(self) -> int:
        """Number of frames in a sampled ``obs``. It may be changed at any time.

        :raises AssertionError: if it is set to less than 1.
        """
        return self._rows.stack_num

    @stack_num.setter
    def stack_num(self, value: int) -> None:
        assert value > 0, "stack_num should be greater than 0"
        self._rows.stack_num = int(value)
        if self._rows.whole:
            self._core.stack_num = int(value)

    # -- writing -----------------------------------------------------------------------------------------------------
    def add(self, batch: Batch | Mapping[str, Any], buffer_ids: NDArray[Any] | list[int] | None = None) -> Added:
        """Appends a row.

        :param batch: a row with ``obs``, ``act``, ``rew``, ``terminated``, ``truncated`` and any other fields, which
            may be nested.
        :param buffer_ids: if it is given, every field has a leading axis of length 1.
        :return: ``(index, episode_return, episode_length, episode_start)``, arrays of length 1; return and length are 0
            unless the row ends its episode.
        :raises KeyError: if a required field is missing.
        :raises TypeError: if a value cannot be converted to the dtype of its column without loss.
        :raises ValueError: if a shape differs from that of the first row. After any error, the buffer is unchanged.
        """
        rows = self._rows
        added = self._add(batch, rows.ring if buffer_ids is None else [rows.ring])
        return added if rows.whole else rows.outside_added(added)

    def append(
        self, *, obs: object, act: object, rew: object, terminated: object, truncated: object, obs_next: object = None
    ) -> int:
        """Appends a row by keywords, without a ``Batch``, which is the fastest way. The buffer must have one ring.

        :param obs: observation.
        :param act: action.
        :param rew: reward.
        :param terminated: whether the episode reached a terminal state.
        :param truncated: whether the episode was cut.
        :param obs_next: next observation; None to leave it out.
        :return: the index of the row.
        :raises KeyError: see :meth:`add`, also for other errors.
        """
        row = {"obs": obs, "act": act, "rew": rew, "terminated": terminated, "truncated": truncated}
        return int(self.add(row if obs_next is None else row | {"obs_next": obs_next})[0][0])

    def update(self, buffer: ReplayBuffer) -> Index:
        """Appends copies of all rows of another buffer, oldest first.

        :param buffer: the other buffer. Of a vector buffer, the episode that is running in an environment is truncated
            where rows of the next one follow.
        :return: int64, the indices of the rows in this buffer; empty if there are no rows, or this buffer has size 0.
        :raises TypeError: if a value cannot be converted to the dtype of its column.
        :raises ValueError: if the shapes of the rows differ.
        """
        return writing.append_all(self._rows, buffer._rows) if len(buffer) else np.array([], np.int64)

    def reset(self, keep_statistics: bool = False) -> None:
        """Removes all rows and their priorities.

        :param keep_statistics: whether the running episode keeps its return and length so far.
        """
        self._core.hold(partial(self._store.reset, self._rows.only_ring, keep_statistics))

    # -- drawing and reading -----------------------------------------------------------------------------------------
    def sample_indices(self, batch_size: int | None) -> Index:
        """Draws rows by the sampler.

        :param batch_size: number of rows to draw, with replacement. 0 returns all rows, ring by ring, oldest first; a
            negative number returns none; None draws as many rows as there are (a manager returns all rows, as for 0).
        :return: int64. The array also records which generation of each row was drawn and, with ``relabel``, its goal.
        :raises ValueError: if there is no row to draw.
        """
        if batch_size is None:
            batch_size = 0 if self._none_is_all or not len(self) else len(self)
        return reading.draw(self._rows, batch_size) if batch_size >= 0 else np.array([], np.int64)

    def sample(self, batch_size: int | None, out: reading.Out | None = None) -> tuple[Batch, Index]:
        """Draws rows and reads them.

        :param batch_size: see :meth:`sample_indices`.
        :param out: arrays to be filled, by top-level name, such as ``{"obs": frames}``; each writable, C-contiguous and
            of the batch's dtype and shape. They become fields of the batch; the other fields are new arrays.
        :return: the batch (with ``weight`` if the buffer is prioritized) and its indices.
        :raises ValueError: if there is no row to draw; if ``out`` has a name that is not an array of numbers at the top
            of a batch, or an array that does not fit; or if ``out`` is given to a buffer whose batches are made by a
            unit or by a ``__getitem__`` of a subclass.
        """
        if self._draws_whole_rows and out is None and batch_size and batch_size > 0 and self._store.plain:
            try:
                drawn: tuple[Batch, Index] = self._core.sample(batch_size)
            except SchemaMismatch:  # the first objects were added meanwhile
                pass
            else:
                return drawn
        cls = type(self)
        maker = None if cls.__getitem__ is ReplayBuffer.__getitem__ else f"{cls.__name__}.__getitem__"
        return self._core.hold(partial(reading.sample, self, batch_size, out, maker))

    def __getitem__(self, index: IndexLike) -> Batch:
        """Returns rows as a batch of new arrays.

        :param index: one row (int), or many (list, array, mask, slice over the live rows).
        :return: a batch whose fields have the shape of the index as leading axes. For one row, values inside of nested
            fields (``buffer[0].info.env_id``) are NumPy's scalars.
        :raises IndexError: if a row is out of range, or ``index`` is not an index.
        """
        rows = self._rows
        return rows.read(rows.direct, reading.batch, index)

    def _joined(self, index: Index, given: dict[str, Any], later: Index, names: tuple[str, ...]) -> Batch:
        """Returns rows as a batch that has the ``given`` fields, and the fields ``names`` of the rows ``later``.

        Each column is read once, unless a subclass makes the batches of rows by itself.
        """
        if self._reads:
            return reading.joined(self._rows, index, given, later, names)
        batch, others = self[index], self[later]
        batch.update({name: others[name] for name in names} | given)
        return batch

    def _weights(self, index: Index) -> NDArray[np.float64]:
        """Returns the importance weights of rows, as batches have them."""
        return priorities.weights(self._rows, self._rows.resolve(index))

    def get(self, index: IndexLike, key: str, default_value: object = None, stack_num: int | None = None) -> Any:
        """Returns one field of rows, with frame stacks.

        :param index: one row or many, as for ``buffer[index]``.
        :param key: name of the field, at the top level.
        :param default_value: the result if there is no such field; None raises an error instead.
        :param stack_num: number of frames; default the buffer's own.
        :return: ``[..., *row]``, or ``[..., stack_num, *row]`` if ``stack_num`` is greater than 1.
        :raises KeyError: if there is neither such a field nor a default.
        :raises ValueError: if ``stack_num`` is less than 1.
        """
        return reading.field(self._rows, index, key, default_value, stack_num)
