"""The replay buffer: Tianshou's names over the Rust engine."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as AbstractSequence
from os import PathLike
from typing import Any, ClassVar, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlfast._core import SchemaMismatch, SegmentTree
from rlfast.data.batch.batch import Batch
from rlfast.data.buffer.config import Config, draw_seed, ignore_unknown
from rlfast.data.buffer.relabelling import Hindsight
from rlfast.data.buffer.samplers import Prioritized, Uniform
from rlfast.data.buffer.store import episodes, output_arrays, priorities, reading, writing
from rlfast.data.buffer.store.priorities import when_prioritized
from rlfast.data.buffer.store.row_range import RowRange
from rlfast.data.buffer.store.store import Added, Index, Store
from rlfast.data.buffer.tianshou_view import TianshouView
from rlfast.data.buffer.units import NStep, Sequence, Transition, Unit
from rlfast.utils.checks import count_of

TBuffer = TypeVar("TBuffer", bound="ReplayBuffer")
IndexLike = int | slice | list[int] | NDArray[Any]
PathType: TypeAlias = str | PathLike[str]
_FIRST = np.zeros(1, np.int64)
_DERIVED = frozenset({"_core", "_config", "_rows", "_quick_add", "_quick_sample", "append", "_whole", "_base"})
"""Attributes that follow from the store and the ring. They are not pickled; the last two are in older pickles."""


class MalformedBufferError(RuntimeError):
    """A buffer's rows are not as they must be."""


class ReplayBuffer(TianshouView):
    """A ring of transitions, of any nested shape and dtype.

    The first row decides the columns. ``obs_next`` is stored only where it is not the next row's ``obs``, so by default
    nothing is kept twice and nothing is lost. ``buf.obs``, ``buf.rew``, ... give whole columns; ``buf[index]`` and
    :meth:`sample` give fresh arrays.

    :param size: rows at most.
    :param stack_num: frames in a sampled ``obs`` and ``obs_next``, >= 1; 1 is no stacking.
    :param ignore_obs_next: store no ``obs_next``; it is then the ``obs`` of the next row, or of the row itself at an
        end.
    :param save_only_last_obs: of ``obs`` and ``obs_next`` that arrive stacked, ``[frames, ...]``, store the last frame.
    :param sample_avail: draw only rows whose frame stack lies whole inside their episode.
    :param seed: of this buffer's random streams; None draws one from ``np.random``.
    :param storage: ``"ram"``, or a folder for columns in memory-mapped files; copies of the buffer are in RAM.
    :param sampler: ``Uniform()`` or ``Prioritized(alpha, beta)``.
    :param unit: what a drawn row grows into: ``Transition()``, ``FrameStack(n)``, ``NStep(n, gamma)`` or
        ``Sequence(length, burn_in)``.
    :param relabel: ``Hindsight(compute_reward_fn, horizon)``, or None.
    :param kwargs: ignored, with a warning.
    :raises AssertionError: ``stack_num`` below 1.
    :raises ValueError: a negative size.
    :raises TypeError: a size that is no number.

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

    The parts go together as they like: sequences with burn-in, drawn by priority, with goals relabelled in hindsight.

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

    _none_is_all: ClassVar[bool] = False  # what sample_indices(None) means: Tianshou's managers answer as for 0
    _is_manager: ClassVar[bool] = False
    _sampler_kind: ClassVar[type] = object  # what a file of this class must hold
    _quick_class: ClassVar[bool] = True  # no subclass has its own way of drawing or reading rows
    _plain_append: ClassVar[bool] = True  # nor of adding them
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
        if (size := count_of("size", size, rounded=int)) < 0:
            raise ValueError(f"size must not be negative, got {size}")
        config = Config(stack_num, ignore_obs_next, save_only_last_obs, sample_avail, sampler, unit, relabel).settled()
        self._setup([size], config, draw_seed(seed), storage)

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
        """Makes the storage; ``buffers``, one for each ring of a manager, become parts of it."""
        assert self._is_manager or not buffers
        self._attach(Store(capacities, config, seed, storage), 0)
        self.options = self._options()

    def _options(self) -> dict[str, Any]:
        """Constructor arguments."""
        return self._config.options()

    def _attach(self, store: Store, ring: int | None) -> None:
        """Takes a ring of a store, or (None) all of them, as this buffer's rows."""
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
            self.__dict__["append"] = self._core.append  # without what the class's way there costs

    def __getstate__(self) -> dict[str, Any]:
        state = {key: value for key, value in self.__dict__.items() if key not in _DERIVED}
        return state | {"_ring": self._rows.ring, "_stack_num": self._rows.stack_num}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({key: value for key, value in state.items() if key not in _DERIVED})
        ring, stack_num = (self.__dict__.pop(key) for key in ("_ring", "_stack_num"))
        self._attach(self._store, ring)
        self._rows.stack_num = stack_num

    # -- attributes --------------------------------------------------------------------------------------------------
    def __getattr__(self, key: str) -> Any:
        if "_store" not in self.__dict__:
            raise AttributeError(key)  # before __init__ or unpickling is through
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
        """Bytes that the rows take in memory or on disk, without object leaves; of all rings of a manager's storage."""
        return self._core.nbytes()

    @property
    def stack_num(self) -> int:
        """Frames in a sampled ``obs``; may be changed at any time.

        :raises AssertionError: set to less than 1.
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

        :param batch: ``obs``, ``act``, ``rew``, ``terminated``, ``truncated`` and what else there is; any nested shape.
        :param buffer_ids: when given, every field has a leading axis of length 1.
        :return: ``(index, episode_return, episode_length, episode_start)``, arrays of length 1; return and length are 0
            while the episode goes on.
        :raises KeyError: a field that every row needs is missing.
        :raises TypeError: a dtype that would lose information.
        :raises ValueError: another shape than the first row's. Whatever is raised, the buffer is as it was.
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
        """Appends a row by keywords, without a ``Batch``: the quickest way in (of a buffer with one ring).

        :return: its index.
        :raises KeyError: as :meth:`add`, as are the other errors.
        """
        row = {"obs": obs, "act": act, "rew": rew, "terminated": terminated, "truncated": truncated}
        return int(self.add(row if obs_next is None else row | {"obs_next": obs_next})[0][0])

    def close_episodes(self, buffer_ids: NDArray[Any] | list[int] | None = None) -> None:
        """Ends running episodes where their environment is reset within one: cut off by time at their newest row.

        What is over already, or was never begun, stays as it is.

        :param buffer_ids: of which buffers; default all.
        :raises IndexError: there is no such buffer.
        """
        episodes.close(self._rows, self._rings_of(buffer_ids))

    def _rings_of(self, buffer_ids: NDArray[Any] | list[int] | None) -> list[int]:
        if buffer_ids is not None and any(buffer_id != 0 for buffer_id in buffer_ids):
            raise IndexError(f"this buffer has one ring, of buffer id 0, got {list(buffer_ids)}")
        return [self._rows.ring or 0]

    def update(self, buffer: ReplayBuffer) -> Index:
        """Appends all rows of another buffer, oldest first, as they are stored.

        :param buffer: where they come from; it keeps them.
        :return: their indices here; none if there are no rows, or no room for any.
        :raises TypeError: a dtype that the columns here cannot hold.
        :raises ValueError: rows of another shape.
        """
        return writing.append_all(self._rows, buffer._rows) if len(buffer) else np.array([], np.int64)

    def set_batch(self, batch: Batch) -> None:
        """Installs a whole storage; which rows are live, and their priorities, stay as they are.

        Columns of another dtype or shape than the stored ones can be read, but not be added to.

        :param batch: ``maxsize`` rows of reserved keys.
        :raises AssertionError: another length, or other keys.
        :raises NotImplementedError: the buffer is part of a manager.
        """
        fits = len(batch) == self.maxsize and set(batch.keys()).issubset(self._reserved_keys)
        assert fits, (
            f"a storage of {self.maxsize} rows with keys among {', '.join(self._reserved_keys)} is wanted, "
            f"got {len(batch)} rows of {', '.join(batch.keys())}"
        )
        if not self._rows.whole:
            raise NotImplementedError("set_batch on the manager: this buffer's rows are part of its storage")
        self._store.install(dict(batch.items()))

    def reset(self, keep_statistics: bool = False) -> None:
        """Forgets all rows, and their priorities.

        :param keep_statistics: go on counting return and length of the running episode.
        """
        self._store.reset(self._rows.only_ring, keep_statistics)

    # -- drawing and reading -----------------------------------------------------------------------------------------
    def sample_indices(self, batch_size: int | None) -> Index:
        """Rows drawn by the sampler.

        :param batch_size: how many, with replacement; 0 gives all rows, oldest first, ring by ring; below 0 none; None
            as many as there are rows (of a manager: all rows, as 0).
        :return: int64. The array also remembers what its rows hold, and their goals under ``relabel``.
        :raises ValueError: there is no row to draw.
        """
        if batch_size is None:
            batch_size = 0 if self._none_is_all or not len(self) else len(self)
        return reading.draw(self._rows, batch_size) if batch_size >= 0 else np.array([], np.int64)

    def sample(self, batch_size: int | None, out: output_arrays.Out | None = None) -> tuple[Batch, Index]:
        """Draws rows and reads them.

        :param batch_size: as for :meth:`sample_indices`.
        :param out: arrays to be filled, by top-level name, such as ``{"obs": frames}``; each writable, C-contiguous and
            of the batch's dtype and shape. They become the batch's fields; the other fields are fresh arrays.
        :return: the batch (with ``weight`` when prioritized) and its indices.
        :raises ValueError: there is no row to draw; ``out`` has a name that is no array of numbers at the top of a
            batch, or an array that does not fit; ``out`` with a unit or a ``__getitem__`` that makes rows of its own.
        """
        if out is not None:
            self._refuse_out()
            return output_arrays.sample_into(self._rows, lambda: self.sample_indices(batch_size), out)
        if batch_size and batch_size > 0 and self._quick_sample and self._store.plain:
            sampled: tuple[Batch, Index] = self._core.sample(batch_size)
            return sampled
        indices = self.sample_indices(batch_size)
        unit = self._config.unit
        if not isinstance(unit, NStep | Sequence):
            return self[indices], indices
        batch = unit.expand(self, indices)
        if self._core.prioritized:
            batch.weight = priorities.weights(self._rows, self._rows.resolve(indices))  # of the row that was drawn
        return batch, indices

    def _refuse_out(self) -> None:
        """Raises where rows are made by others than the engine."""
        unit = self._config.unit
        if isinstance(unit, NStep | Sequence) or type(self).__getitem__ is not ReplayBuffer.__getitem__:
            maker = type(unit).__name__ if isinstance(unit, NStep | Sequence) else f"{type(self).__name__}.__getitem__"
            raise ValueError(f"{maker} makes the rows of this buffer's batches itself: sample without out")

    def __getitem__(self, index: IndexLike) -> Batch:
        """Fresh arrays of rows.

        :param index: one row (int), or many (list, array, mask, slice over the live rows).
        :return: a batch whose fields have the shape of the index in front.
        :raises IndexError: out of range, or no index at all.
        """
        return reading.batch(self._rows, index)

    def get(
        self,
        index: IndexLike,
        key: str,
        default_value: Any = None,
        stack_num: int | None = None,
    ) -> Any:
        """One field of rows, stacked.

        :param index: as for ``buffer[index]``.
        :param key: a top-level name.
        :param default_value: the result when there is no such field; None raises instead.
        :param stack_num: frames; default the buffer's own.
        :return: ``[..., *row]``, or ``[..., stack_num, *row]`` when ``stack_num`` is above 1.
        :raises KeyError: there is no such field and no default.
        :raises ValueError: ``stack_num`` below 1.
        """
        return reading.field(self._rows, index, key, default_value, stack_num)

    # -- episodes ----------------------------------------------------------------------------------------------------
    def prev(self, index: int | list[int] | NDArray[Any]) -> Any:
        """The row before each, in its episode; an episode's oldest row is its own.

        :param index: one row or many; where no row is yet, the index modulo the rows of its ring.
        :return: int64, of the shape of ``index``.
        :raises IndexError: out of range.
        """
        return episodes.prev(self._rows, index)

    def next(self, index: int | list[int] | NDArray[Any]) -> Any:
        """The row after each, in its episode; an episode's newest row is its own.

        :param index: one row or many; where no row is yet, the index modulo the rows of its ring.
        :return: int64, of the shape of ``index``.
        :raises IndexError: out of range.
        """
        return episodes.next_(self._rows, index)

    def rows_until(self, last: int, length: int) -> Index:
        """The ``length`` rows that end with ``last``, oldest first; no more than its ring has.

        :param last: the newest of them, such as the index :meth:`add` gave for the end of an episode.
        :param length: how many.
        :return: int64, ``[length]`` at most.
        """
        return episodes.rows_until(self._rows, last, length)

    def unfinished_index(self) -> Index:
        """The newest row of each ring whose episode is running.

        :return: int64, one for each such ring.
        """
        return episodes.unfinished(self._rows)

    def nstep(
        self, indices: Index, n_step: int, gamma: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], Index]:
        r"""N-step returns without their bootstrap: the target is ``reward_sum + discount * q(buffer[last].obs_next)``.

        Sutton 1988, *Learning to Predict by the Methods of Temporal Differences*.

        :param indices: rows :math:`t`, ``[B]``.
        :param n_step: rows at most, >= 1.
        :param gamma: discount factor.
        :return: :math:`\sum_{k<m} \gamma^k r_{t+k}` over the :math:`m \le n` rows that exist inside the episode,
            ``[B]`` (or ``[B, agents]``); :math:`\gamma^m`, or 0 if the last row is terminal; the last row's index.
        :raises ValueError: ``n_step`` below 1.
        """
        return episodes.nstep(self._rows, indices, n_step, gamma)

    def window(self, indices: Index, before: int, length: int) -> tuple[Index, NDArray[np.bool_]]:
        """Rows around each: up to ``before`` ahead of it in its episode, then ``length`` from it on.

        :param indices: rows, ``[B]``.
        :param before: rows ahead of each, >= 0.
        :param length: rows from each on, itself included.
        :return: rows and a mask, ``[B, before + length]``; where it is False the nearest row of the episode is
            repeated.
        """
        return episodes.window(self._rows, indices, before, length)

    @property
    def subbuffer_edges(self) -> NDArray[np.int64]:
        """Where the rings within the storage begin, and where the last ends: ``[0, maxsize]`` for a single buffer."""
        return np.array([0, self.maxsize])

    def get_buffer_indices(self, start: int, stop: int) -> NDArray[np.int64]:
        """The rows from ``start`` up to ``stop``, which may be smaller: then they go over the edge of their ring.

        None where the two are equal.

        :param start: the first row, say of an episode.
        :param stop: one behind the last row.
        :return: int64, in the order of the ring.
        :raises ValueError: the two are in different rings, or beyond the storage.

        >>> from rlfast.data import VectorReplayBuffer
        >>> VectorReplayBuffer(10, 2).get_buffer_indices(8, 7).tolist()
        [8, 9, 5, 6]
        """
        return episodes.between(self.subbuffer_edges, start, stop)

    # -- priorities: each name is an AttributeError where rows are drawn uniformly -----------------------------------
    @property
    def weight(self) -> SegmentTree:
        """The sum tree over priorities to the power of alpha."""
        self._need_priorities("weight")
        return self._core.tree

    @property
    def stale_updates(self) -> int:
        """Priority updates refused so far because their rows had been overwritten since they were sampled."""
        self._need_priorities("stale_updates")
        return self._core.stale_updates

    @when_prioritized
    def init_weight(self, index: int | Index) -> None:
        """Gives rows the largest priority so far, as new rows have it.

        :param index: one row or many.
        :raises IndexError: out of range.
        """
        priorities.reset(self._rows, index)

    @when_prioritized
    def get_weight(self, index: int | Index) -> float | NDArray[np.float64]:
        r"""Importance weights :math:`(P(i) / \min_k P(k))^{-\beta}` over live rows :math:`k`, not normalised by batch.

        Schaul et al. 2016, arXiv:1511.05952, section 3.4.

        :param index: one row or many.
        :return: float64, of the shape of ``index``.
        """
        weights = priorities.weights(self._rows, self._rows.resolve(index), normalize=False)
        return float(weights) if weights.ndim == 0 else weights

    @when_prioritized
    def update_weight(self, index: int | Index, new_weight: ArrayLike) -> None:
        r"""Sets priorities: the leaf becomes :math:`(|\delta| + \epsilon)^\alpha`, with :math:`\epsilon` of float32.

        Rows that were overwritten since ``index`` was sampled keep the priority of what they hold now.

        :param index: rows, best the array that ``sample`` gave.
        :param new_weight: TD errors :math:`\delta`, an array or tensor with one for each row, or one for all; of a
            repeated row the last counts.
        :raises ValueError: NaN or infinity, or another number of values than rows; nothing is changed then.
        """
        priorities.update(self._rows, index, new_weight)

    @when_prioritized
    def set_beta(self, beta: float) -> None:
        """Sets the exponent of the importance weights, for this buffer with all its children.

        :param beta: >= 0.
        :raises ValueError: beta is negative or NaN.
        """
        priorities.set_beta(self._rows, beta)

    # -- missing values ----------------------------------------------------------------------------------------------
    def isnull(self) -> Batch:
        """Where values of the rows are missing; see :meth:`rlfast.data.Batch.isnull`.

        :return: a batch of booleans with a row for each stored one, oldest first.
        """
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
        :param key: name of the column; a new one is added.
        :param index: which rows to set; default all.
        :param default_value: of the other rows of a new column; None is the dtype's own.
        :raises ValueError: another number of values than rows.
        """
        columns = Batch(_rows=np.empty(self.maxsize, bool))
        if index is not None and key in self._meta:
            columns[key] = np.array(self._meta[key])
        columns.set_array_at_key(seq, key, index, default_value)
        setattr(self._meta, key, columns[key])

    # -- files -------------------------------------------------------------------------------------------------------
    def save(self, path: PathType, *, allow_pickle: bool = False) -> None:
        """Writes a snapshot: rows, priorities, running episodes and random streams; see :meth:`load`.

        :param path: the file; a whole previous one stays until the new one is complete.
        :param allow_pickle: pickle object columns and functions into it.
        :raises TypeError: there are object columns, and ``allow_pickle`` is False.
        :raises ValueError: the buffer is part of a manager.
        """
        from rlfast.data.buffer.io import snapshot

        snapshot.save(self, path, allow_pickle=allow_pickle)

    @classmethod
    def load(
        cls, path: PathType, *, allow_pickle: bool = False, storage: str = "ram", compute_reward_fn: Any = None
    ) -> Self:
        """The buffer that :meth:`save` wrote; it goes on exactly as that one would have.

        A subclass of your own is made without calling its ``__init__``.

        :param path: the file.
        :param allow_pickle: unpickle what was pickled into it: only from files you trust.
        :param storage: ``"ram"``, or a folder for columns in memory-mapped files.
        :param compute_reward_fn: of a buffer with hindsight, unless it was pickled.
        :raises ValueError: not a whole snapshot of such a buffer.
        :raises TypeError: the reward function is missing.
        """
        from rlfast.data.buffer.io import snapshot

        buffer: Self = snapshot.load(
            cls, ReplayBuffer, path, allow_pickle=allow_pickle, storage=storage, compute_reward_fn=compute_reward_fn
        )
        return buffer

    def save_hdf5(self, path: PathType, compression: str | None = None) -> None:
        """Writes Tianshou's HDF5 layout, which Tianshou 1.0 can load.

        :param path: the file; a whole previous one stays until the new one is complete.
        :param compression: as for ``h5py``: ``"gzip"``, ``"lzf"`` or None.
        :raises ValueError: the buffer has a unit, which that layout has no place for.
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
        """The buffer in a file of Tianshou's HDF5 layout, written by either library.

        :param path: the file.
        :param device: accepted for compatibility; rows are held as NumPy arrays.
        :param allow_pickle: unpickle any class or function, such as the reward function of a hindsight buffer: only
            from files you trust.
        :param seed: of the random streams, which the layout does not hold; None draws one from ``np.random``.
        :param storage: ``"ram"``, or a folder for columns in memory-mapped files.
        :raises ValueError: not such a file, or one of another kind of buffer.
        :raises pickle.UnpicklingError: the file holds more than plain data, and ``allow_pickle`` is False.
        """
        from rlfast.data.buffer.io import hdf5

        buffer: Self = hdf5.load(cls, path, allow_pickle=allow_pickle, seed=draw_seed(seed), storage=storage)
        return buffer

    @classmethod
    def from_minari(cls, dataset: Any, size: int | None = None, **options: Any) -> Self:
        """A buffer with all episodes of a Minari dataset, in their order, as full of rows as the dataset has steps.

        ``info`` is the info of each step and ``first_info``, in an episode's first row, that of its reset. Tuples
        become dicts with the keys ``"0"``, ``"1"``, ... An episode without an end counts as cut off by time.

        :param dataset: a ``MinariDataset``, or the id of one that is on this machine.
        :param size: rows at most; default as many as there are. Of more the last ones are kept.
        :param options: what the constructor takes beside ``size``.
        :raises ImportError: Minari is not installed.
        :raises TypeError: the buffer has several rings.
        """
        from rlfast.data.buffer.io import minari

        buffer: Self = minari.load(cls, dataset, size, options)
        return buffer

    def to_minari(self, dataset_id: str, **metadata: Any) -> Any:
        """Writes all rows as a Minari dataset, the reverse of :meth:`from_minari`.

        A running episode ends as truncated at its newest row. Images are stored exactly, unless ``jpeg_encoding=True``.

        :param dataset_id: its name, such as ``"cartpole/mine-v0"``.
        :param metadata: what ``minari.create_dataset_from_buffers`` takes: ``env``, or ``observation_space`` and
            ``action_space``, and ``algorithm_name``, ``author``, ...
        :return: the ``MinariDataset``.
        :raises ImportError: Minari is not installed.
        :raises ValueError: there are no rows, or an ``obs_next`` that is not the next row's ``obs``.
        """
        from rlfast.data.buffer.io import minari

        return minari.save(self, dataset_id, metadata)

    @classmethod
    def from_data(cls, obs: Any, act: Any, rew: Any, terminated: Any, truncated: Any, done: Any, obs_next: Any) -> Self:
        """A full buffer of the given columns, as of seven HDF5 data sets.

        :param obs: the column of observations, one entry for each row, as are the others.
        :param act: actions.
        :param rew: rewards.
        :param terminated: where episodes end in a terminal state.
        :param truncated: where they are cut off.
        :param done: ignored; it follows from ``terminated`` and ``truncated``.
        :param obs_next: next observations.
        :return: a buffer of as many rows, all of them live.
        :raises AssertionError: lengths differ.
        """
        from rlfast.data.buffer.io import hdf5

        columns = {"obs": obs, "act": act, "rew": rew, "terminated": terminated, "truncated": truncated}
        buffer: Self = hdf5.from_columns(cls, columns | {"obs_next": obs_next}, done)
        return buffer
