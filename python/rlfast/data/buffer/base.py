"""The replay buffer: Tianshou's names over the Rust engine."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from collections.abc import Sequence as AbstractSequence
from functools import partial
from os import PathLike
from typing import Any, ClassVar, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlfast._core import SchemaMismatch, SegmentTree
from rlfast.data.batch.batch import Batch
from rlfast.data.buffer.options.config import Config, ignore_unknown
from rlfast.data.buffer.options.relabelling import Hindsight
from rlfast.data.buffer.options.samplers import Prioritized, Uniform
from rlfast.data.buffer.options.units import NStep, Sequence, Transition, Unit
from rlfast.data.buffer.store import episodes, output_arrays, priorities, reading, writing
from rlfast.data.buffer.store.priorities import when_prioritized
from rlfast.data.buffer.store.row_range import RowRange
from rlfast.data.buffer.store.store import Added, Index, Store
from rlfast.data.buffer.tianshou_view import TianshouView
from rlfast.utils.arguments.checks import count_of
from rlfast.utils.runtime.seeding import draw_seed

TBuffer = TypeVar("TBuffer", bound="ReplayBuffer")
IndexLike = int | slice | list[int] | NDArray[Any]
PathType: TypeAlias = str | PathLike[str]
_FIRST = np.zeros(1, np.int64)
_DERIVED = frozenset({"_core", "_config", "_rows", "_quick_add", "_quick_sample", "append", "_whole", "_base"})
"""Attributes that follow from the store and the ring. They are not pickled; the last two are in older pickles."""


class MalformedBufferError(RuntimeError):
    """The rows of a buffer are inconsistent."""


class ReplayBuffer(TianshouView):
    """A ring of transitions, of any nested structure, shapes and dtypes.

    The first row defines the columns. ``obs_next`` is stored only where it differs from the next row's ``obs``, so
    observations are stored once and exactly. ``buf.obs``, ``buf.rew``, ... are whole columns; ``buf[index]`` and
    :meth:`sample` return new arrays.

    :param size: the largest number of rows.
    :param stack_num: number of frames in a sampled ``obs`` and ``obs_next``, at least 1; 1 is no stacking.
    :param ignore_obs_next: do not store ``obs_next``. When read, it is the ``obs`` of the next row, or at the end of an
        episode that of the row itself.
    :param save_only_last_obs: store only the last frame of ``obs`` and ``obs_next`` that are added as stacks,
        ``[frames,
        ...]``.
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

    _none_is_all: ClassVar[bool] = False  # whether sample_indices(None) returns all rows, as Tianshou's managers do
    _is_manager: ClassVar[bool] = False
    _sampler_kind: ClassVar[type] = object  # the class of the sampler that a file for this class must have
    _quick_class: ClassVar[bool] = True  # whether no subclass overrides methods that draw or read rows
    _plain_append: ClassVar[bool] = True  # whether no subclass overrides methods that add rows
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

        def keeps(*names: str) -> bool:
            return all(getattr(cls, name) is getattr(ReplayBuffer, name) for name in names)

        cls._quick_class = keeps("sample_indices", "__getitem__", "get")
        cls._plain_append = keeps("add", "append")

    # -- making ------------------------------------------------------------------------------------------------------
    def _setup(
        self,
        capacities: list[int],
        config: Config,
        seed: int,
        storage: str = "ram",
        buffers: AbstractSequence[Any] = (),
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
        self._quick_add = len(store.capacities) == 1
        self._quick_sample = (
            self._quick_class
            and self._rows.whole
            and isinstance(store.config.unit, Transition)
            and store.config.relabel is None
        )
        self.__dict__.pop("append", None)
        if self._quick_add and self._plain_append and not self._config.save_only_last_obs:
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

    def __setattr__(self, key: str, value: Any) -> None:
        assert key not in self._reserved_keys, f"key '{key}' is reserved and cannot be assigned"
        if key == "maxsize" and value != self.__dict__.get(key, value):
            raise AttributeError("maxsize is fixed: make a buffer of another size, and update it with this one")
        object.__setattr__(self, key, value)

    def __repr__(self) -> str:
        return type(self).__name__ + repr(self._meta)[len(type(self._meta).__name__) :]

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
        store = self._store
        if store.quick and self._quick_add:
            try:
                return store.core.add(batch.__dict__, None if buffer_ids is None else _FIRST)
            except (SchemaMismatch, AttributeError):
                pass
        return writing.add_row(self._rows, batch, batched=buffer_ids is not None)

    def append(
        self,
        *,
        obs: Any,
        act: Any,
        rew: Any,
        terminated: Any,
        truncated: Any,
        obs_next: Any = None,
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

    def close_episodes(self, buffer_ids: NDArray[Any] | list[int] | None = None) -> None:
        """Ends running episodes as truncated at their newest row, for environments that are reset within an episode.

        :param buffer_ids: numbers of the buffers whose episodes end; default all.
        :raises IndexError: if there is no such buffer.
        """
        episodes.close(self._rows, self._rings_of(buffer_ids))

    def _rings_of(self, buffer_ids: NDArray[Any] | list[int] | None) -> list[int]:
        if buffer_ids is not None and any(buffer_id != 0 for buffer_id in buffer_ids):
            raise IndexError(f"this buffer has one ring, of buffer id 0, got {list(buffer_ids)}")
        return [self._rows.ring or 0]

    def update(self, buffer: ReplayBuffer) -> Index:
        """Appends copies of all rows of another buffer, oldest first.

        :param buffer: the other buffer.
        :return: int64, the indices of the rows in this buffer; empty if there are no rows, or this buffer has size 0.
        :raises TypeError: if a value cannot be converted to the dtype of its column.
        :raises ValueError: if the shapes of the rows differ.
        """
        return writing.append_all(self._rows, buffer._rows) if len(buffer) else np.array([], np.int64)

    def set_batch(self, batch: Batch) -> None:
        """Replaces all columns. Which rows are live, and their priorities, stay the same.

        If a column has another dtype or shape than the stored one, rows can be read, but not added.

        :param batch: ``maxsize`` rows with reserved keys.
        :raises AssertionError: if the length or the keys are others.
        :raises NotImplementedError: if the buffer is part of a manager.
        """
        fits = len(batch) == self.maxsize and set(batch.keys()).issubset(self._reserved_keys)
        assert fits, (
            f"a storage of {self.maxsize} rows with keys among {', '.join(self._reserved_keys)} is wanted, "
            f"got {len(batch)} rows of {', '.join(batch.keys())}"
        )
        if not self._rows.whole:
            raise NotImplementedError("set_batch on the manager: this buffer's rows are part of its storage")
        self._core.hold(partial(self._store.install, dict(batch.items())))

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

    def sample(self, batch_size: int | None, out: output_arrays.Out | None = None) -> tuple[Batch, Index]:
        """Draws rows and reads them.

        :param batch_size: see :meth:`sample_indices`.
        :param out: arrays to be filled, by top-level name, such as ``{"obs": frames}``; each writable, C-contiguous and
            of the batch's dtype and shape. They become fields of the batch; the other fields are new arrays.
        :return: the batch (with ``weight`` if the buffer is prioritized) and its indices.
        :raises ValueError: if there is no row to draw; if ``out`` has a name that is not an array of numbers at the top
            of a batch, or an array that does not fit; or if ``out`` is given to a buffer whose batches are made by a
            unit or by a ``__getitem__`` of a subclass.
        """
        if out is not None:
            self._check_out()
            draw = partial(self.sample_indices, batch_size)
            return self._core.hold(partial(output_arrays.sample_into, self._rows, draw, out))
        if batch_size and batch_size > 0 and self._quick_sample and self._store.plain:
            try:
                sampled: tuple[Batch, Index] = self._core.sample(batch_size)
            except SchemaMismatch:  # the first objects were added meanwhile
                pass
            else:
                return sampled
        return self._core.hold(partial(self._sample, batch_size))

    def _sample(self, batch_size: int | None) -> tuple[Batch, Index]:
        indices = self.sample_indices(batch_size)
        unit = self._config.unit
        if not isinstance(unit, NStep | Sequence):
            return self[indices], indices
        batch = unit.expand(self, indices)
        if self._core.prioritized:
            batch.weight = priorities.weights(self._rows, self._rows.resolve(indices))  # one for each drawn row
        return batch, indices

    def _check_out(self) -> None:
        """Raises a ValueError if batches are not made by the engine, but by a unit or a subclass."""
        unit = self._config.unit
        if isinstance(unit, NStep | Sequence) or type(self).__getitem__ is not ReplayBuffer.__getitem__:
            maker = type(unit).__name__ if isinstance(unit, NStep | Sequence) else f"{type(self).__name__}.__getitem__"
            raise ValueError(f"{maker} makes the rows of this buffer's batches itself: sample without out")

    def __getitem__(self, index: IndexLike) -> Batch:
        """Returns rows as a batch of new arrays.

        :param index: one row (int), or many (list, array, mask, slice over the live rows).
        :return: a batch whose fields have the shape of the index as leading axes. For one row, values inside of nested
            fields (``buffer[0].info.env_id``) are NumPy's scalars.
        :raises IndexError: if a row is out of range, or ``index`` is not an index.
        """
        return reading.batch(self._rows, index)

    def _joined(self, index: Index, given: dict[str, Any], later: Index, names: tuple[str, ...]) -> Batch:
        """Returns rows as a batch that has the ``given`` fields, and the fields ``names`` of the rows ``later``.

        Each column is read once, unless a subclass makes the batches of rows by itself.
        """
        if self._quick_class:
            return reading.joined(self._rows, index, given, later, names)
        batch, others = self[index], self[later]
        batch.update({name: others[name] for name in names} | given)
        return batch

    def get(
        self,
        index: IndexLike,
        key: str,
        default_value: Any = None,
        stack_num: int | None = None,
    ) -> Any:
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

    # -- episodes ----------------------------------------------------------------------------------------------------
    def prev(self, index: int | list[int] | NDArray[Any]) -> Any:
        """Returns the row before each row in its episode; for the oldest row of an episode, that row itself.

        :param index: one row or many. An index without a row is taken modulo the number of rows of its ring.
        :return: int64 of the shape of ``index``.
        :raises IndexError: if an index is out of range.
        """
        return episodes.prev(self._rows, index)

    def next(self, index: int | list[int] | NDArray[Any]) -> Any:
        """Returns the row after each row in its episode; for the newest row of an episode, that row itself.

        :param index: one row or many. An index without a row is taken modulo the number of rows of its ring.
        :return: int64 of the shape of ``index``.
        :raises IndexError: if an index is out of range.
        """
        return episodes.next_(self._rows, index)

    def rows_until(self, last: int, length: int) -> Index:
        """Returns the ``length`` rows up to and including ``last``, oldest first; fewer if the ring has fewer rows.

        :param last: the newest of the rows, such as the index that :meth:`add` returned for the end of an episode.
        :param length: number of rows.
        :return: int64 of at most ``length`` elements.
        """
        return episodes.rows_until(self._rows, last, length)

    def unfinished_index(self) -> Index:
        """Returns the newest row of each ring whose newest episode is running.

        :return: int64, one element for each such ring.
        """
        return episodes.unfinished(self._rows)

    def nstep(
        self, indices: Index, n_step: int, gamma: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], Index]:
        r"""Returns the parts of n-step targets ``reward_sum + discount * q(buffer[last].obs_next)``.

        Sutton 1988, *Learning to Predict by the Methods of Temporal Differences*.

        :param indices: rows :math:`t`, ``[B]``.
        :param n_step: the largest number of rows to sum over, at least 1.
        :param gamma: discount factor.
        :return: ``reward_sum``, :math:`\sum_{k<m} \gamma^k r_{t+k}` over the :math:`m \le n` rows that the episode has,
            ``[B]`` (or ``[B, agents]``); ``discount``, :math:`\gamma^m`, or 0 if the last row is terminal, ``[B]``; and
            ``last``, the index of the last row, ``[B]``.
        :raises ValueError: if ``n_step`` is less than 1.
        """
        return episodes.nstep(self._rows, indices, n_step, gamma)

    def window(self, indices: Index, before: int, length: int) -> tuple[Index, NDArray[np.bool_]]:
        """Returns for each row the ``before`` rows before it in its episode and the ``length`` rows from it on.

        :param indices: rows, ``[B]``.
        :param before: number of rows before each row, at least 0.
        :param length: number of rows from each row on, itself included.
        :return: rows and a mask, ``[B, before + length]``. Where the mask is False, the episode has no such row, and
            its nearest row is repeated.
        """
        return episodes.window(self._rows, indices, before, length)

    @property
    def subbuffer_edges(self) -> NDArray[np.int64]:
        """The first row of each ring, and the end of the last ring: ``[0, maxsize]`` for a buffer with one ring."""
        return np.array([0, self.maxsize])

    def get_buffer_indices(self, start: int, stop: int) -> NDArray[np.int64]:
        """Returns the rows from ``start`` up to, but not including, ``stop``, in the order of their ring.

        If ``stop`` is smaller than ``start``, the rows continue at the start of the ring. If they are equal, there are
        none.

        :param start: the first row, such as that of an episode.
        :param stop: the row after the last one.
        :return: int64.
        :raises ValueError: if the two are in different rings, or outside the storage.

        >>> from rlfast.data import VectorReplayBuffer
        >>> VectorReplayBuffer(10, 2).get_buffer_indices(8, 7).tolist()
        [8, 9, 5, 6]
        """
        return episodes.between(self.subbuffer_edges, start, stop)

    # -- priorities: each name raises an AttributeError if rows are drawn uniformly ----------------------------------
    @property
    def weight(self) -> SegmentTree:
        """The sum tree of priorities to the power of alpha."""
        self._need_priorities("weight")
        return self._core.tree

    @property
    def stale_updates(self) -> int:
        """The number of priority updates that were ignored because their rows had been overwritten after sampling."""
        self._need_priorities("stale_updates")
        return self._core.stale_updates

    @when_prioritized
    def init_weight(self, index: int | Index) -> None:
        """Gives rows the largest priority so far, which new rows have, too.

        :param index: one row or many.
        :raises IndexError: if a row is out of range.
        """
        priorities.reset(self._rows, index)

    @when_prioritized
    def get_weight(self, index: int | Index) -> float | NDArray[np.float64]:
        r"""Returns importance weights :math:`(P(i) / \min_k P(k))^{-\beta}` over live rows :math:`k`.

        They are not divided by the largest of the batch (Schaul et al. 2016, arXiv:1511.05952, section 3.4).

        :param index: one row or many.
        :return: float64 of the shape of ``index``.
        """
        weights = priorities.weights(self._rows, self._rows.resolve(index), normalize=False)
        return float(weights) if weights.ndim == 0 else weights

    @when_prioritized
    def update_weight(self, index: int | Index, new_weight: ArrayLike) -> None:
        r"""Sets priorities: leaves become :math:`(|\delta| + \epsilon)^\alpha`, where :math:`\epsilon` is that of
        float32.

        Rows that were overwritten after ``index`` was sampled keep their present priority.

        :param index: rows, preferably the array that ``sample`` returned, which records generations.
        :param new_weight: TD errors :math:`\delta`, an array or tensor with one for each row, or one for all; if a row
            occurs twice, its last value counts.
        :raises ValueError: for NaN or infinity, or if the numbers of values and rows differ. Nothing is changed then.
        """
        priorities.update(self._rows, index, new_weight)

    @when_prioritized
    def set_beta(self, beta: float) -> None:
        """Sets the exponent of the importance weights, for a manager and all its buffers together.

        :param beta: the exponent, at least 0.
        :raises ValueError: if it is negative or NaN.
        """
        priorities.set_beta(self._rows, beta)

    # -- missing values ----------------------------------------------------------------------------------------------
    def isnull(self) -> Batch:
        """Returns where values of the rows are missing; see :meth:`rlfast.data.Batch.isnull`.

        :return: a batch of booleans with one row for each stored row, oldest first.
        """
        rows: Batch = self[:]
        return rows.isnull()

    def hasnull(self) -> bool:
        """Returns whether a value of any row is missing."""
        rows: Batch = self[:]
        return rows.hasnull()

    def set_array_at_key(
        self, seq: NDArray[Any], key: str, index: Any = None, default_value: float | None = None
    ) -> None:
        """Sets a column, or some of its rows; see :meth:`rlfast.data.Batch.set_array_at_key`.

        :param seq: the values; ``maxsize`` of them, unless ``index`` is given.
        :param key: name of the column, which is added if it does not exist.
        :param index: the rows to set; default all.
        :param default_value: value of the other rows that a new column has now; None for NaN among floats. Rows that
            are added later without this key get 0 or None, as of any column.
        :raises ValueError: if the numbers of values and rows differ.
        :raises TypeError: if the dtype of ``seq`` cannot hold ``default_value``.
        """
        self._core.hold(partial(self._set_array_at_key, seq, key, index, default_value))

    def _set_array_at_key(self, seq: NDArray[Any], key: str, index: Any, default_value: float | None) -> None:
        columns = Batch(_rows=np.empty(self.maxsize, bool))
        if index is not None and key in self._meta:
            columns[key] = np.array(self._meta[key])
        columns.set_array_at_key(seq, key, index, default_value)
        setattr(self._meta, key, columns[key])

    # -- files -------------------------------------------------------------------------------------------------------
    def save(self, path: PathType, *, allow_pickle: bool = False) -> None:
        """Writes a snapshot of rows, priorities, running episodes and random streams to a file; see :meth:`load`.

        :param path: the file. An existing file is replaced once the new one is complete.
        :param allow_pickle: whether object columns and functions are pickled into the file. Object columns of plain
            data (strings, numbers, None, arrays, and lists, tuples and dicts of them) need no pickles.
        :raises TypeError: if other objects are in columns, and ``allow_pickle`` is False.
        :raises ValueError: if the buffer is part of a manager.
        """
        from rlfast.data.buffer.io import snapshot

        snapshot.save(self, path, allow_pickle=allow_pickle)

    @classmethod
    def load(
        cls, path: PathType, *, allow_pickle: bool = False, storage: str = "ram", compute_reward_fn: Any = None
    ) -> Self:
        """Returns the buffer from a file of :meth:`save`, with the same rows, priorities and random streams.

        The ``__init__`` of a subclass is not called.

        :param path: the file.
        :param allow_pickle: whether pickled objects are loaded, which is safe only for files you trust.
        :param storage: where rows are: see :class:`ReplayBuffer`.
        :param compute_reward_fn: the reward function of a buffer with hindsight, unless it was pickled.
        :return: the buffer.
        :raises ValueError: if the file is not a complete snapshot of such a buffer.
        :raises TypeError: if the reward function is missing.
        """
        from rlfast.data.buffer.io import snapshot

        buffer: Self = snapshot.load(
            cls, ReplayBuffer, path, allow_pickle=allow_pickle, storage=storage, compute_reward_fn=compute_reward_fn
        )
        return buffer

    def flush(self) -> None:
        """Keeps all rows, priorities and running episodes in the folder of ``storage``, for :meth:`open`.

        The first call writes a snapshot, and takes the folder for this buffer alone. Later calls append what was added
        since, until a new snapshot is shorter. Rows that were changed in place since an earlier call, through
        ``buffer.rew`` and the like, are in the next snapshot only. What an earlier call kept stays until this one is
        complete, whatever happens to the process or the machine.

        :raises ValueError: if rows are in memory, the folder holds another buffer, or the buffer is part of a manager.
        :raises TypeError: if there are object columns.
        :raises OSError: if the disk is full (what an earlier call kept is still there), or another process uses the
            folder.
        """
        from rlfast.data.buffer.io import snapshot

        snapshot.flush(self)

    @classmethod
    def open(cls, folder: PathType, *, compute_reward_fn: Any = None) -> Self:
        """Returns the buffer that :meth:`flush` kept in a folder, and goes on with it.

        It has every row that was added before the last flush, and not those that were added later: a warning says how
        many these were.

        :param folder: the folder, which was ``storage`` of the buffer.
        :param compute_reward_fn: the reward function of a buffer with hindsight.
        :return: the buffer.
        :raises ValueError: if the folder holds no such buffer, one of another version, or a damaged one.
        :raises OSError: if another process, or another buffer of this one, uses the folder.
        :raises TypeError: if the reward function is missing.
        """
        from rlfast.data.buffer.io import snapshot

        buffer: Self
        buffer, lost = snapshot.open_folder(cls, ReplayBuffer, folder, compute_reward_fn=compute_reward_fn)
        if lost:
            warnings.warn(f"{lost} rows were added to {folder} after its last flush, and are gone", stacklevel=2)
        return buffer

    def save_hdf5(self, path: PathType, compression: str | None = None) -> None:
        """Writes the buffer to an HDF5 file in Tianshou's layout, which Tianshou 1.0 can load.

        :param path: the file. An existing file is replaced once the new one is complete.
        :param compression: compression of ``h5py``: ``"gzip"``, ``"lzf"`` or None.
        :raises ValueError: if the buffer has a unit, which that layout cannot express.
        """
        from rlfast.data.buffer.io import hdf5

        hdf5.save(self, path, compression)

    @classmethod
    def load_hdf5(
        cls,
        path: PathType,
        device: str | None = None,  # noqa: ARG003
        *,
        allow_pickle: bool = False,
        seed: int | None = None,
        storage: str = "ram",
    ) -> Self:
        """Returns the buffer from an HDF5 file in Tianshou's layout, written by Tianshou or by :meth:`save_hdf5`.

        :param path: the file.
        :param device: ignored, as rows are NumPy arrays.
        :param allow_pickle: whether any class or function is unpickled, such as the reward function of a hindsight
            buffer, which is safe only for files you trust.
        :param seed: seed of the random streams, which the layout does not store; None draws one from ``np.random``.
        :param storage: where rows are: see :class:`ReplayBuffer`.
        :return: the buffer.
        :raises ValueError: if the file has another layout, or another kind of buffer.
        :raises pickle.UnpicklingError: if the file has more than plain data, and ``allow_pickle`` is False.
        """
        from rlfast.data.buffer.io import hdf5

        buffer: Self = hdf5.load(cls, path, allow_pickle=allow_pickle, seed=draw_seed(seed), storage=storage)
        return buffer

    @classmethod
    def from_minari(cls, dataset: Any, size: int | None = None, **options: Any) -> Self:
        """Returns a buffer with all episodes of a Minari dataset, in their order.

        ``info`` is the info of each step, and ``first_info``, in an episode's first row, that of its reset. Tuples
        become dicts with the keys ``"0"``, ``"1"``, ... An episode without an end counts as truncated.

        :param dataset: a ``MinariDataset``, or the id of one on this machine.
        :param size: the largest number of rows; default the number of steps of the dataset. If it has more steps, the
            last ones are kept.
        :param options: other arguments of the constructor.
        :return: the buffer.
        :raises ImportError: if Minari is not installed.
        :raises TypeError: if the buffer has several rings.
        """
        from rlfast.data.buffer.io import minari

        buffer: Self = minari.load(cls, dataset, size, options)
        return buffer

    @classmethod
    def from_d4rl(cls, path: PathType) -> Self:
        """Returns a buffer with the rows of an HDF5 file of D4RL.

        ``timeouts`` become truncations. Without ``next_observations``, the last row of an episode that was cut off has
        no known successor; it is left out, and the row before it counts as truncated.

        :param path: the file.
        :return: the buffer.
        :raises ImportError: if h5py is not installed.
        :raises OSError: if it is no HDF5 file.
        :raises ValueError: if datasets are missing, or their lengths differ.
        :raises TypeError: if the buffer has several rings.
        """
        from rlfast.data.buffer.io import d4rl

        buffer: Self = d4rl.load(cls, path)
        return buffer

    def to_minari(self, dataset_id: str, **metadata: Any) -> Any:
        """Writes all rows to a Minari dataset, the inverse of :meth:`from_minari`.

        A running episode ends as truncated at its newest row. Images are stored exactly, unless ``jpeg_encoding=True``.

        :param dataset_id: name of the dataset, such as ``"cartpole/mine-v0"``.
        :param metadata: arguments of ``minari.create_dataset_from_buffers``: ``env``, or ``observation_space`` and
            ``action_space``, and ``algorithm_name``, ``author``, ...
        :return: the ``MinariDataset``.
        :raises ImportError: if Minari is not installed.
        :raises ValueError: if there are no rows, or an ``obs_next`` within an episode is not the next row's ``obs``.
        """
        from rlfast.data.buffer.io import minari

        return minari.save(self, dataset_id, metadata)

    @classmethod
    def from_data(cls, obs: Any, act: Any, rew: Any, terminated: Any, truncated: Any, done: Any, obs_next: Any) -> Self:
        """Returns a full buffer of the given columns, such as seven HDF5 datasets.

        :param obs: observations, one for each row, as in the other columns.
        :param act: actions.
        :param rew: rewards.
        :param terminated: whether the episode reached a terminal state.
        :param truncated: whether the episode was cut.
        :param done: ignored, as it follows from ``terminated`` and ``truncated``.
        :param obs_next: next observations.
        :return: a buffer of that size, all of whose rows are live.
        :raises AssertionError: if the lengths of the columns differ.
        """
        from rlfast.data.buffer.io import hdf5

        columns = {"obs": obs, "act": act, "rew": rew, "terminated": terminated, "truncated": truncated}
        buffer: Self = hdf5.from_columns(cls, columns | {"obs_next": obs_next}, done)
        return buffer
