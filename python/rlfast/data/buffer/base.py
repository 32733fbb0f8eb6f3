"""The replay buffer: Tianshou's names over the Rust engine."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from rlfast.data.batch.batch import Batch, wrap
from rlfast.data.buffer.config import Config, draw_seed, ignore_unknown
from rlfast.data.buffer.samplers import Prioritized, Uniform
from rlfast.data.buffer.store.episodes import Episodes
from rlfast.data.buffer.store.output_arrays import Out, check_weight, fill_weight, fillable
from rlfast.data.buffer.store.store import Index
from rlfast.data.buffer.store.writing import Writing
from rlfast.data.buffer.tianshou_view import TianshouView
from rlfast.data.buffer.units import NStep, Sequence, Unit
from rlfast.utils.checks import count_of

if TYPE_CHECKING:
    from rlfast.data.buffer.relabelling import Hindsight

TBuffer = TypeVar("TBuffer", bound="ReplayBuffer")
IndexLike = int | slice | list[int] | NDArray[Any]
PathType: TypeAlias = str | PathLike[str]
_STACKED = frozenset({"obs", "obs_next", "info", "policy"})


class MalformedBufferError(RuntimeError):
    """A buffer's rows are not as they must be."""


class ReplayBuffer(Writing, Episodes, TianshouView):
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

    # -- which rows --------------------------------------------------------------------------------------------------
    def sample_indices(self, batch_size: int | None) -> Index:
        """Rows drawn by the sampler.

        :param batch_size: how many, with replacement; 0 gives all rows, oldest first, ring by ring; below 0 none; None
            as many as there are rows (of a manager: all rows, as 0).
        :return: int64. The array also remembers what its rows hold, and their goals under ``relabel``.
        :raises ValueError: there is no row to draw.
        """
        if batch_size is None:
            batch_size = 0 if self._none_is_all or not len(self) else len(self)
        if batch_size < 0:
            return np.array([], np.int64)
        ring = self._only_ring
        rows = self._core.draw(batch_size, ring) if batch_size else self._core.chronological(ring)
        if self._config.relabel is not None and len(rows):
            rows = self._config.relabel.choose(self._store, rows)
        return self._outside(rows)

    def sample(self, batch_size: int | None, out: Out | None = None) -> tuple[Batch, Index]:
        """Draws rows and reads them.

        :param batch_size: as for :meth:`sample_indices`.
        :param out: arrays to be filled, by top-level name, such as ``{"obs": frames}``; each writable, C-contiguous and
            of the batch's dtype and shape. They become the batch's fields; the other fields are fresh arrays.
        :return: the batch (with ``weight`` when prioritized) and its indices.
        :raises ValueError: there is no row to draw; ``out`` has a name that is no array of numbers at the top of a
            batch, or an array that does not fit; ``out`` with a unit or a ``__getitem__`` that makes rows of its own.
        """
        if out is not None:
            return self._sample_into(batch_size, out)
        if batch_size and batch_size > 0 and self._quick_sample and self._store.plain:
            sampled: tuple[Batch, Index] = self._core.sample(batch_size)
            return sampled
        indices = self.sample_indices(batch_size)
        unit = self._config.unit
        if not isinstance(unit, NStep | Sequence):
            return self[indices], indices
        batch = unit.expand(self, indices)
        if self._core.prioritized:
            batch.weight = self._weights(self._rows(indices))  # of the row that was drawn
        return batch, indices

    def _sample_into(self, batch_size: int | None, out: Out) -> tuple[Batch, Index]:
        unit = self._config.unit
        if isinstance(unit, NStep | Sequence) or type(self).__getitem__ is not ReplayBuffer.__getitem__:
            maker = type(unit).__name__ if isinstance(unit, NStep | Sequence) else f"{type(self).__name__}.__getitem__"
            raise ValueError(f"{maker} makes the rows of this buffer's batches itself: sample without out")
        given = fillable(self._store, out)
        indices = self.sample_indices(batch_size)
        check_weight(given, indices.shape)
        fields = self._read(self._rows(indices), None, None, given)
        fill_weight(fields, given)
        return wrap(fields), indices

    # -- reading -----------------------------------------------------------------------------------------------------
    def __getitem__(self, index: IndexLike) -> Batch:
        """Fresh arrays of rows: one (int), or many (list, array, mask, slice over the live rows)."""
        if self._straight(index):
            try:
                return wrap(self._read(index, None, None))
            except IndexError:
                pass
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
        :raises ValueError: ``stack_num`` below 1.
        """
        store = self._store
        rebuilt = key == "obs_next" and self._config.ignore_obs_next  # from the rows that follow
        if not (store.schema if rebuilt else store.has(key)):
            if default_value is not None:
                return default_value
            raise KeyError(f"{key}: there is no such field, but {', '.join(store.names()) or 'nothing at all'}")
        depth = self._stack_num if stack_num is None else count_of("stack_num", stack_num)
        if depth < 1:
            raise ValueError(f"stack_num must be at least 1, got {depth}")
        if self._straight(index):
            try:
                return self._field(index, key, depth)
            except IndexError:
                pass
        return self._field(self._rows(index), key, depth)

    def _field(self, rows: Index, key: str, depth: int) -> Any:
        if depth > 1 and key not in _STACKED:
            rows, depth = self._store.frames(rows, depth), 1
        value = self._read(rows, [key], depth).get(key)
        return Batch() if value is None else value

    def _read(
        self, rows: Index, keys: list[str] | None, stack_num: int | None, out: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        if not self._store.schema and rows.size == 0:
            return _nothing()
        fields = self._store.take(rows, keys, self._stack_num if stack_num is None else stack_num, out)
        if self._config.relabel is not None:
            self._config.relabel.apply(self._store, rows, fields)
        if self._core.prioritized and keys is None:
            fields["weight"] = self._weights(rows)
        return fields

    # -- rows as a whole ----------------------------------------------------------------------------------------------
    @property
    def subbuffer_edges(self) -> NDArray[np.int64]:
        """Where the rings within the storage begin, and where the last ends: ``[0, maxsize]`` for a single buffer."""
        return np.array(getattr(self, "_extend_offset", (0, self.maxsize)), np.int64)

    def get_buffer_indices(self, start: int, stop: int) -> NDArray[np.int64]:
        """The rows from ``start`` up to ``stop``, which may be smaller: then they go over the edge of their ring.

        None where the two are equal.

        :param start: the first row, say of an episode.
        :param stop: one behind the last row.
        :raises ValueError: the two are in different rings, or beyond the storage.

        >>> from rlfast.data import VectorReplayBuffer
        >>> VectorReplayBuffer(10, 2).get_buffer_indices(8, 7).tolist()
        [8, 9, 5, 6]
        """
        edges = self.subbuffer_edges
        if not (0 <= start < edges[-1] and 0 < stop <= edges[-1]):
            raise ValueError(f"rows {start} to {stop} are not in a storage of {edges[-1]} rows")
        ring = int(np.searchsorted(edges, start, side="right")) - 1
        first, end = int(edges[ring]), int(edges[ring + 1])
        if not first < stop <= end:
            raise ValueError(f"rows {start} to {stop} are in different buffers, whose edges are {edges.tolist()}")
        if start <= stop:
            return np.arange(start, stop)
        return np.concatenate([np.arange(start, end), np.arange(first, stop)])

    def isnull(self) -> Batch:
        """Where values of the rows are missing, in the order of time; see :meth:`rlfast.data.Batch.isnull`."""
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
        """
        columns = Batch(_rows=np.empty(self.maxsize, bool))
        if index is not None and key in self._meta:
            columns[key] = np.array(self._meta[key])
        columns.set_array_at_key(seq, key, index, default_value)
        setattr(self._meta, key, columns[key])

    # -- files -------------------------------------------------------------------------------------------------------
    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key not in ("_core", "append")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__dict__["_core"] = self._store.core
        self._bind()

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

        return snapshot.load(
            cls, ReplayBuffer, path, allow_pickle=allow_pickle, storage=storage, compute_reward_fn=compute_reward_fn
        )

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

        if hasattr(cls, "_adopt"):
            raise TypeError(f"a dataset goes into a buffer of one ring, not into a {cls.__name__}")
        dataset = minari.opened(dataset)
        buffer = cls(int(dataset.total_steps) if size is None else size, **options)
        minari.fill(buffer, dataset)
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

        :param done: ignored; it follows from ``terminated`` and ``truncated``.
        :raises AssertionError: lengths differ.
        """
        columns = {
            "obs": obs,
            "act": act,
            "rew": rew,
            "terminated": terminated,
            "truncated": truncated,
            "obs_next": obs_next,
        }
        size = len(obs)
        same = all(len(column) == size for column in (*columns.values(), done))
        assert same, "Lengths of all hdf5 datasets need to be equal."
        buffer = cls(size)
        if size:
            arrays = {key: column[:] for key, column in columns.items()}
            buffer._store.replace(arrays, [size], [0])
        return buffer


def _nothing() -> dict[str, Any]:
    """A batch of no rows of a buffer that has no columns yet."""
    flag = np.zeros(0, np.bool_)
    empty: dict[str, Any] = {key: Batch() for key in ("obs", "act", "obs_next", "info", "policy")}
    return empty | {"rew": np.zeros(0), "terminated": flag, "truncated": flag.copy(), "done": flag.copy()}
