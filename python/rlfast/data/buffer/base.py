"""The replay buffer: Tianshou's names over the Rust engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from rlfast._core import SchemaMismatch, carried, carry
from rlfast.data.batch import Batch, wrap
from rlfast.data.buffer import _hdf5, _snapshot
from rlfast.data.buffer._config import Config
from rlfast.data.buffer._meta import Meta
from rlfast.data.buffer._priorities import Priorities
from rlfast.data.buffer._samplers import Prioritized, Uniform
from rlfast.data.buffer._store import Added, Index, Store
from rlfast.data.buffer._units import NStep, Sequence, Transition, Unit

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Sequence as AbstractSequence

    from rlfast._core import Replay
    from rlfast.data.buffer._relabel import Hindsight

IndexLike = int | slice | list[int] | NDArray[Any]
TBuffer = TypeVar("TBuffer", bound="ReplayBuffer")
_STACKED = frozenset({"obs", "obs_next", "info", "policy"})


def draw_seed(seed: int | None) -> int:
    """The seed, or one drawn from NumPy's global generator, so that ``np.random.seed`` still repeats a run."""
    return int(np.random.randint(2**63 - 1, dtype=np.int64)) if seed is None else int(seed)


class ReplayBuffer(Priorities):
    """A ring of transitions, of any nested shape and dtype.

    The first row decides the columns. ``obs_next`` is stored only where it is not the next row's ``obs``, so by default
    nothing is kept twice and nothing is lost. ``buf.obs``, ``buf.rew``, ... give whole columns; ``buf[index]`` and
    :meth:`sample` give fresh arrays.

    :param size: rows at most.
    :param stack_num: frames in a sampled ``obs`` and ``obs_next``, >= 1; 1 is no stacking.
    :param ignore_obs_next: store no ``obs_next``; it is then the ``obs`` of the next row, or of the row itself at an end.
    :param save_only_last_obs: of ``obs`` and ``obs_next`` that arrive stacked, ``[frames, ...]``, store the last frame.
    :param sample_avail: draw only rows whose frame stack lies whole inside their episode.
    :param seed: of this buffer's random streams; None draws one from ``np.random``.
    :param storage: ``"ram"``, or a folder for columns in memory-mapped files.
    :param sampler: ``Uniform()`` or ``Prioritized(alpha, beta)``.
    :param unit: what a drawn row grows into: ``Transition()``, ``FrameStack(n)``, ``NStep(n, gamma)`` or
        ``Sequence(length, burn_in)``.
    :param relabel: ``Hindsight(compute_reward_fn, horizon)``, or None.
    :raises AssertionError: ``stack_num`` below 1.
    :raises ValueError: a negative size.
    :raises TypeError: an argument that does not exist.

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
    """

    _reserved_keys: ClassVar[tuple[str, ...]] = (
        "obs",
        "act",
        "rew",
        "terminated",
        "truncated",
        "done",
        "obs_next",
        "info",
        "policy",
    )
    _input_keys: ClassVar[tuple[str, ...]] = tuple(key for key in _reserved_keys if key != "done")
    _quick_class: ClassVar[bool] = True  # no subclass has its own way of drawing or reading rows
    _sampler_kind: ClassVar[type] = object
    _none_is_all: ClassVar[bool] = False  # what sample_indices(None) means: Tianshou's managers answer as for 0

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
        if kwargs:
            raise TypeError(f"{type(self).__name__} got unexpected arguments: {', '.join(kwargs)}")
        if int(size) < 0:
            raise ValueError(f"size must not be negative, got {size}")
        config = Config(stack_num, ignore_obs_next, save_only_last_obs, sample_avail, sampler, unit, relabel).settled()
        self._setup([int(size)], config, draw_seed(seed), storage)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        names = ("sample_indices", "__getitem__", "get")
        cls._quick_class = all(getattr(cls, name) is getattr(ReplayBuffer, name) for name in names)

    def _setup(
        self,
        capacities: list[int],
        config: Config,
        seed: int,
        storage: str = "ram",
        buffers: AbstractSequence[ReplayBuffer] = (),
    ) -> None:
        """Makes the storage; ``buffers``, one for each ring of a manager, become parts of it."""
        assert not buffers
        self._attach(Store(capacities, config, seed, storage), 0)
        self.options = self._options()

    def _attach(self, store: Store, ring: int | None) -> None:
        """Takes a ring of a store, or (None) all of them, as this buffer's rows."""
        self._store, self._config, self._core = store, store.config, store.core
        self._ring = ring
        self._base = 0 if ring is None else store.core.offsets[ring]
        self.maxsize = store.core.total if ring is None else store.core.capacities[ring]
        self._stack_num = store.config.stack_num
        alone = len(store.core.capacities) == 1
        self._own_engine = ring is None or alone
        self._quick_add = alone and not store.config.save_only_last_obs
        self._quick_sample = (
            self._quick_class
            and self._own_engine
            and isinstance(store.config.unit, Transition)
            and not store.config.relabel
        )

    def _options(self) -> dict[str, Any]:
        return self._config.options()

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_core"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__dict__["_core"] = self._store.core

    def __len__(self) -> int:
        return len(self._core) if self._own_engine else int(self._core.sizes()[self._ring])

    def __repr__(self) -> str:
        return type(self).__name__ + repr(self._meta)[len(type(self._meta).__name__) :]

    # -- what Tianshou's buffers are asked for -----------------------------------------------------------------------
    def __getattr__(self, key: str) -> Any:
        if key.startswith("_") and "_store" not in self.__dict__:
            raise AttributeError(key)  # before __init__ or unpickling is through
        try:
            return self._store.column(key, self._span())
        except KeyError:
            raise AttributeError(f"{type(self).__name__!r} has no attribute or stored field {key!r}") from None

    def __setattr__(self, key: str, value: Any) -> None:
        assert key not in self._reserved_keys, f"key '{key}' is reserved and cannot be assigned"
        object.__setattr__(self, key, value)

    def _span(self) -> slice | None:
        return None if self._own_engine else slice(self._base, self._base + self.maxsize)

    @property
    def _meta(self) -> Any:
        """The stored columns as a ``Batch``, made when they are looked at; assigning to it assigns columns."""
        return Meta(self)

    @_meta.setter
    def _meta(self, batch: Batch) -> None:
        for key, value in list(batch.items()):
            self._assign_column(key, value)

    def _assign_column(self, key: str, value: Any) -> None:
        if not self._own_engine:
            raise NotImplementedError(
                f"assign {key} through the _meta of the manager: this buffer's rows are part of its storage"
            )
        self._store.assign(key, value)

    def _column_keys(self) -> list[str]:
        return self._store.keys()

    @property
    def stack_num(self) -> int:
        """Frames in a sampled ``obs``; may be changed at any time."""
        return self._stack_num

    @stack_num.setter
    def stack_num(self, value: int) -> None:
        assert value > 0, "stack_num should be greater than 0"
        self._stack_num = int(value)
        if self._own_engine:
            self._core.stack_num = int(value)

    @property
    def _save_obs_next(self) -> bool:
        return not self._config.ignore_obs_next

    @property
    def _save_only_last_obs(self) -> bool:
        return self._config.save_only_last_obs

    @property
    def _sample_avail(self) -> bool:
        return self._core.sample_avail

    @property
    def _size(self) -> int:
        return len(self)

    @property
    def _index(self) -> int:
        return int(self._core.cursors()[self._ring or 0])

    @property
    def last_index(self) -> Index:
        """Newest row of each ring; where there is none, the ring's first."""
        rings = slice(None) if self._ring is None else slice(self._ring, self._ring + 1)
        offsets = np.array(self._core.offsets[rings], np.int64) - self._base
        sizes = self._core.sizes()[rings]
        capacities = np.maximum(self._core.capacities[rings], 1)
        last = (self._core.cursors()[rings] - 1) % capacities
        return np.where(sizes > 0, offsets + last, offsets)

    @property
    def _ep_rew(self) -> float | NDArray[np.float64]:
        return self._core.running(self._ring or 0)[0]

    @property
    def _ep_len(self) -> int:
        return self._core.running(self._ring or 0)[1]

    @property
    def _ep_idx(self) -> int:
        return self._core.running(self._ring or 0)[2] - self._base

    # -- writing -----------------------------------------------------------------------------------------------------
    def add(self, batch: Batch | Mapping[str, Any], buffer_ids: NDArray[Any] | list[int] | None = None) -> Added:
        """Appends a row.

        :param batch: ``obs``, ``act``, ``rew``, ``terminated``, ``truncated`` and what else there is; any nested shape.
        :param buffer_ids: when given, every field has a leading axis of length 1.
        :return: ``(index, episode_return, episode_length, episode_start)``, arrays of length 1; return and length are 0 while
            the episode goes on.
        :raises KeyError: a field that every row needs is missing.
        :raises TypeError: a dtype that would lose information.
        :raises ValueError: another shape than the first row's. Whatever is raised, the buffer is as it was.
        """
        if self._quick_add and self._store.plain:
            try:
                return self._core.add(batch.__dict__, None if buffer_ids is None else _FIRST)
            except (SchemaMismatch, AttributeError):
                pass
        rings = None
        if buffer_ids is not None or not self._own_engine:
            rings = np.array([self._ring or 0], np.int64)
        return self._add(batch, rings, batched=buffer_ids is not None)

    def _add(self, batch: Batch | Mapping[str, Any], rings: Index | None, *, batched: bool) -> Added:
        """The careful way: one row, or (``batched``) as many as ``rings``."""
        fields = dict(batch.items())
        if self._config.save_only_last_obs:
            for key in {"obs", "obs_next"}.intersection(fields):
                fields[key] = _last_frame(fields[key], batched)
        if rings is not None and not batched:
            fields = _with_axis(fields)
        index, episode_return, length, start = self._store.add(fields, rings)
        return index - self._base, episode_return, length, start - self._base

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
        """Appends a row by keywords, without a ``Batch``: the quickest way in.

        :return: its index.
        """
        if self._quick_add and self._store.plain:
            try:
                return self._core.append(
                    obs=obs, act=act, rew=rew, terminated=terminated, truncated=truncated, obs_next=obs_next
                )
            except SchemaMismatch:
                pass
        row = {"obs": obs, "act": act, "rew": rew, "terminated": terminated, "truncated": truncated}
        return int(self.add(row if obs_next is None else row | {"obs_next": obs_next})[0][0])

    def close_episodes(self, buffer_ids: NDArray[Any] | list[int] | None = None) -> None:
        """Ends running episodes where their environment is reset within one: cut off by time at their newest row.

        What is over already, or was never begun, stays as it is.

        :param buffer_ids: of which buffers; default all.
        """
        core = self._core
        for ring in self._rings_of(buffer_ids):
            core.close_episode(ring)
            if core.running(ring)[1]:  # its rows were forgotten by reset(keep_statistics=True)
                core.set_running(ring, 0.0, 0, core.offsets[ring] + int(core.cursors()[ring]))

    def _rings_of(self, buffer_ids: NDArray[Any] | list[int] | None) -> list[int]:
        if buffer_ids is not None and any(buffer_id != 0 for buffer_id in buffer_ids):
            raise IndexError(f"this buffer has one ring, of buffer id 0, got {list(buffer_ids)}")
        return [self._ring or 0]

    def update(self, buffer: ReplayBuffer) -> Index:
        """Appends all rows of another buffer, oldest first, as they are stored.

        :param buffer: where they come from; it keeps them.
        :return: their indices here; none if there are no rows, or no room for any.
        """
        if len(buffer) == 0 or self.maxsize == 0:
            return np.array([], np.int64)
        rows = buffer._store.live(None if buffer._own_engine else buffer._ring)
        fields = buffer._store.take(rows, stack_num=1)
        rings = np.full(len(rows), self._ring or 0, np.int64)
        return self._store.add(fields, rings)[0] - self._base

    def set_batch(self, batch: Batch) -> None:
        """Installs a whole storage; which rows are live stays as it is.

        :param batch: ``maxsize`` rows of reserved keys.
        :raises AssertionError: another length, or other keys.
        """
        fits = len(batch) == self.maxsize and set(batch.keys()).issubset(self._reserved_keys)
        assert fits, (
            f"a storage of {self.maxsize} rows with keys among {', '.join(self._reserved_keys)} is wanted, got {len(batch)} rows "
            f"of {', '.join(batch.keys())}"
        )
        if not self._own_engine:
            raise NotImplementedError("set_batch on the manager: this buffer's rows are part of its storage")
        core = self._core
        running = [core.running(ring) for ring in range(len(core.capacities))]
        self._store.replace(dict(batch.items()), core.sizes().tolist(), core.cursors().tolist())
        for ring, statistics in enumerate(running):
            core.set_running(ring, *statistics)

    def reset(self, keep_statistics: bool = False) -> None:
        """Forgets all rows, and their priorities.

        :param keep_statistics: go on counting return and length of the running episode.
        """
        self._store.reset(self._ring if not self._own_engine else None, keep_statistics)

    # -- which rows --------------------------------------------------------------------------------------------------
    def sample_indices(self, batch_size: int | None) -> Index:
        """Rows drawn by the sampler.

        :param batch_size: how many, with replacement; 0 gives all rows, oldest first, ring by ring; below 0 none; None as
            many as there are rows (of a manager: all rows, as 0).
        :return: int64. The array also remembers what its rows hold, and their goals under ``relabel``.
        :raises ValueError: there is no row to draw.
        """
        if batch_size is None:
            batch_size = 0 if self._none_is_all or not len(self) else len(self)
        if batch_size < 0:
            return np.array([], np.int64)
        ring = None if self._own_engine else self._ring
        rows = self._core.draw(batch_size, ring) if batch_size else self._core.chronological(ring)
        if self._config.relabel is not None and len(rows):
            rows = self._config.relabel.choose(self._store, rows)
        return _shift(rows, -self._base)

    def sample(self, batch_size: int | None) -> tuple[Batch, Index]:
        """Draws rows and reads them.

        :param batch_size: as for :meth:`sample_indices`.
        :return: the batch (with ``weight`` when prioritized) and its indices.
        """
        if batch_size and batch_size > 0 and self._quick_sample and self._store.plain:
            fields, index = self._core.sample(batch_size)
            return wrap(fields), index
        indices = self.sample_indices(batch_size)
        unit = self._config.unit
        if not isinstance(unit, NStep | Sequence):
            return self[indices], indices
        batch = unit.expand(self, indices)
        if self._core.prioritized:
            batch.weight = self._weights(self._rows(indices))  # of the row that was drawn
        return batch, indices

    def prev(self, index: int | list[int] | NDArray[Any]) -> Any:
        """The row before each, in its episode; an episode's oldest row is its own."""
        rows = self._rows(index)
        return self._like(index, self._with_goals(rows, self._core.prev(rows)))

    def next(self, index: int | list[int] | NDArray[Any]) -> Any:
        """The row after each, in its episode; an episode's newest row is its own."""
        rows = self._rows(index)
        return self._like(index, self._with_goals(rows, self._core.next(rows)))

    def _like(self, index: Any, rows: Index) -> Any:
        return np.int64(rows - self._base) if rows.ndim == 0 else _shift(rows, -self._base)

    def unfinished_index(self) -> Index:
        """The newest row of each ring whose episode is running."""
        rows = self._core.unfinished()
        if not self._own_engine:
            rows = rows[(rows >= self._base) & (rows < self._base + self.maxsize)] - self._base
        return rows

    def nstep(
        self, indices: Index, n_step: int, gamma: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], Index]:
        r"""N-step returns without their bootstrap: the target is ``reward_sum + discount * q(buffer[last].obs_next)``.

        :param indices: rows :math:`t`, ``[B]``.
        :param n_step: rows at most, >= 1.
        :param gamma: discount factor.
        :return: :math:`\sum_{k<m} \gamma^k r_{t+k}` over the :math:`m \le n` rows that exist inside the episode, ``[B]`` (or
            ``[B, agents]``); :math:`\gamma^m`, or 0 if the last row is terminal; the last row's index.
        :raises ValueError: ``n_step`` below 1.
        """
        if n_step < 1:
            raise ValueError(f"n_step must be at least 1, got {n_step}")
        rows = self._rows(indices)
        if carried(rows) is None and "rew" not in self._store.assigned:
            reward_sum, discount, last = self._core.nstep(rows, n_step, gamma)
            return reward_sum, discount, _shift(last, -self._base)
        unrolled, count = self._core.unroll(rows, n_step)
        powers = np.where(np.arange(n_step) < count[..., None], gamma ** np.arange(n_step), 0.0)
        rewards = self._read(self._with_goals(rows, unrolled), ["rew"], 1)["rew"]
        reward_sum = (rewards * powers.reshape(powers.shape + (1,) * (rewards.ndim - powers.ndim))).sum(rows.ndim)
        last = self._with_goals(rows, unrolled[..., -1])
        terminated = self._store.take(last, ["terminated"])["terminated"]
        return reward_sum, np.where(terminated, 0.0, gamma**count), _shift(last, -self._base)

    def window(self, indices: Index, before: int, length: int) -> tuple[Index, NDArray[np.bool_]]:
        """Rows around each: up to ``before`` ahead of it in its episode, then ``length`` from it on.

        :return: ``[B, before + length]`` rows and a mask; where it is False the nearest row of the episode is repeated.
        """
        rows = self._rows(indices)
        around, mask = self._core.window(rows, before, length)
        return _shift(self._with_goals(rows, around), -self._base), mask

    def _with_goals(self, rows: Index, others: Index) -> Index:
        """``others``, one or more for each of ``rows``, with the goals that ``rows`` remember."""
        goals = carried(rows)
        if goals is None:
            return others
        goals = goals.reshape(goals.shape + (1,) * (others.ndim - goals.ndim))
        return carry(others, np.broadcast_to(goals, others.shape).copy())

    # -- reading -----------------------------------------------------------------------------------------------------
    def __getitem__(self, index: IndexLike) -> Batch:
        """Fresh arrays of rows: one (int), or many (list, array, mask, slice over the live rows)."""
        return wrap(self._read(self._rows(index), None, None))

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
        """
        if key not in self._store.keys():
            if default_value is not None:
                return default_value
            raise KeyError(f"{key}: there is no such field, but {', '.join(self._store.keys()) or 'nothing at all'}")
        rows = self._rows(index)
        depth = self._stack_num if stack_num is None else stack_num
        if depth > 1 and key not in _STACKED:
            rows, depth = self._store.frames(rows, depth), 1
        value = self._read(rows, [key], depth).get(key)
        return Batch() if value is None else value

    def _read(self, rows: Index, keys: list[str] | None, stack_num: int | None) -> dict[str, Any]:
        if not self._store.schema and rows.size == 0:
            return _nothing()
        fields = self._store.take(rows, keys, self._stack_num if stack_num is None else stack_num)
        if self._config.relabel is not None:
            self._config.relabel.apply(self._store, rows, fields)
        if self._core.prioritized and keys is None:
            fields["weight"] = self._weights(rows)
        return fields

    def _rows(self, index: Any) -> Index:
        """Global rows of whatever may stand between brackets."""
        if isinstance(index, slice):
            ring = None if self._own_engine else self._ring
            return self._core.chronological(ring) if index == slice(None) else np.sort(self._store.live(ring))[index]
        rows = np.asarray(index) if not isinstance(index, np.ndarray) else index
        if rows.dtype == np.bool_:
            if rows.shape != (self.maxsize,):
                raise IndexError(f"a mask needs shape ({self.maxsize},), got {rows.shape}")
            rows = np.flatnonzero(rows)
        elif rows.dtype != np.int64:
            if rows.size and rows.dtype.kind not in "iu":
                raise IndexError(f"rows are named by integers, got {rows.dtype}")
            rows = rows.astype(np.int64)
        if rows.size and rows.min() < 0:
            rows = np.where(rows < 0, rows + self.maxsize, rows)
        if rows.size and (rows.max() >= self.maxsize or rows.min() < 0):
            raise IndexError(f"index {index} is out of range for a buffer of {self.maxsize} rows")
        return _shift(rows, self._base)

    # -- files -------------------------------------------------------------------------------------------------------
    def save(self, path: str, *, allow_pickle: bool = False) -> None:
        """Writes a snapshot: rows, priorities, running episodes and random streams; see :meth:`load`.

        :param path: the file; a whole previous one stays until the new one is complete.
        :param allow_pickle: pickle object columns and functions into it.
        :raises TypeError: there are object columns, and ``allow_pickle`` is False.
        """
        _snapshot.save(self, path, allow_pickle=allow_pickle)

    @classmethod
    def load(cls, path: str, *, allow_pickle: bool = False, **overrides: Any) -> Self:
        """The buffer that :meth:`save` wrote; it goes on exactly as that one would have.

        :param path: the file.
        :param allow_pickle: unpickle what was pickled into it: only from files you trust.
        :param overrides: ``storage``, and ``compute_reward_fn`` of a relabelling buffer.
        :raises ValueError: not a whole snapshot of such a buffer.
        """
        return _snapshot.load(cls, path, allow_pickle=allow_pickle, **overrides)

    def save_hdf5(self, path: str, compression: str | None = None) -> None:
        """Writes Tianshou's HDF5 layout, which Tianshou 1.0 can load.

        :param compression: as for ``h5py``: ``"gzip"``, ``"lzf"`` or None.
        """
        _hdf5.save(self, path, compression)

    @classmethod
    def load_hdf5(
        cls,
        path: str,
        device: str | None = None,  # noqa: ARG003
        *,
        allow_pickle: bool = False,
        seed: int | None = None,
        storage: str = "ram",
    ) -> Self:
        """The buffer in a file of Tianshou's HDF5 layout, written by either library.

        :param device: accepted for compatibility; rows are held as NumPy arrays.
        :param allow_pickle: unpickle any class or function, such as the reward function of a hindsight buffer: only from files
            you trust.
        :param seed: see :class:`ReplayBuffer`, as is ``storage``.
        :raises ValueError: not such a file, or one of another kind of buffer.
        :raises pickle.UnpicklingError: the file holds more than plain data, and ``allow_pickle`` is False.
        """
        return _hdf5.load(cls, path, allow_pickle=allow_pickle, seed=draw_seed(seed), storage=storage)

    @classmethod
    def from_data(cls, obs: Any, act: Any, rew: Any, terminated: Any, truncated: Any, done: Any, obs_next: Any) -> Self:
        """A full buffer of the given columns, as of seven HDF5 data sets.

        :param done: ignored; it follows from ``terminated`` and ``truncated``.
        :raises AssertionError: lengths differ.
        """
        size = len(obs)
        columns = {
            "obs": obs,
            "act": act,
            "rew": rew,
            "terminated": terminated,
            "truncated": truncated,
            "obs_next": obs_next,
        }
        assert all(len(column) == size for column in (*columns.values(), done)), (
            "Lengths of all hdf5 datasets need to be equal."
        )
        buffer = cls(size)
        if size:
            arrays = {key: column[:] for key, column in columns.items()}
            buffer._store.replace(arrays, [size], [0])
        return buffer


_FIRST = np.zeros(1, np.int64)


def _shift(rows: Index, by: int) -> Index:
    if not by:
        return rows
    goals = carried(rows)
    return rows + by if goals is None else carry(rows + by, goals)


def _last_frame(value: Any, batched: bool) -> Any:
    if isinstance(value, dict):
        return {key: _last_frame(inner, batched) for key, inner in value.items()}
    return value[:, -1] if batched else value[-1]


def _with_axis(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The row with a leading axis of length 1."""
    from rlfast.data.schema import as_array, flatten, nest

    leaves, groups = flatten(fields)
    return nest({path: as_array(leaf)[None] for path, leaf in leaves.items()}, groups)


def _nothing() -> dict[str, Any]:
    """A batch of no rows of a buffer that has no columns yet."""
    flag = np.zeros(0, np.bool_)
    empty: dict[str, Any] = {key: Batch() for key in ("obs", "act", "obs_next", "info", "policy")}
    return empty | {"rew": np.zeros(0), "terminated": flag, "truncated": flag.copy(), "done": flag.copy()}
