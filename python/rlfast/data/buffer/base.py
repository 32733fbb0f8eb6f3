"""The replay buffer: Tianshou's names over the Rust engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from rlfast._core import SchemaMismatch
from rlfast.data.batch import Batch, wrap
from rlfast.data.buffer._config import Config
from rlfast.data.buffer._episodes import Episodes
from rlfast.data.buffer._files import Files, draw_seed
from rlfast.data.buffer._out import Out, check_weight, fill_weight, fillable
from rlfast.data.buffer._samplers import Prioritized, Uniform
from rlfast.data.buffer._store import Added, Index
from rlfast.data.buffer._units import NStep, Sequence, Unit
from rlfast.data.schema import as_array, flatten, nest

if TYPE_CHECKING:
    from rlfast.data.buffer._relabel import Hindsight

IndexLike = int | slice | list[int] | NDArray[Any]
TBuffer = TypeVar("TBuffer", bound="ReplayBuffer")
_STACKED = frozenset({"obs", "obs_next", "info", "policy"})


class ReplayBuffer(Episodes, Files):
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
        if kwargs:
            raise TypeError(f"{type(self).__name__} got unexpected arguments: {', '.join(kwargs)}")
        if int(size) < 0:
            raise ValueError(f"size must not be negative, got {size}")
        config = Config(stack_num, ignore_obs_next, save_only_last_obs, sample_avail, sampler, unit, relabel).settled()
        self._setup([int(size)], config, draw_seed(seed), storage)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)

        def keeps(*names: str) -> bool:
            return all(getattr(cls, name) is getattr(ReplayBuffer, name) for name in names)

        cls._quick_class = keeps("sample_indices", "__getitem__", "get")
        cls._plain_append = keeps("add", "append")

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
        rings = None
        if buffer_ids is not None or not self._whole:
            rings = np.array([self._ring or 0], np.int64)
        return self._add(batch, rings, batched=buffer_ids is not None)

    def _add(self, batch: Batch | Mapping[str, Any], rings: Index | None, *, batched: bool) -> Added:
        """The careful way: one row, or (``batched``) as many as ``rings``."""
        fields = self._kept(batch, batched=batched)
        if rings is not None and not batched:
            fields = _with_axis(fields)
        if self._store.plain and not self._store.quick:
            try:
                return self._named_outside(self._core.add(fields, rings))
            except SchemaMismatch:
                pass
        return self._named_outside(self._store.add(fields, rings))

    def _kept(self, batch: Batch | Mapping[str, Any], *, batched: bool) -> dict[str, Any]:
        """What is stored of a row: under ``save_only_last_obs`` the last frame alone."""
        fields = dict(batch.items())
        if self._config.save_only_last_obs:
            for key in {"obs", "obs_next"}.intersection(fields):
                fields[key] = _last_frame(fields[key], batched)
        return fields

    def _named_outside(self, added: Added) -> Added:
        if not self._base:
            return added
        index, episode_return, length, start = added
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
        rows = buffer._store.live(buffer._only_ring)
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
            f"a storage of {self.maxsize} rows with keys among {', '.join(self._reserved_keys)} is wanted, "
            f"got {len(batch)} rows of {', '.join(batch.keys())}"
        )
        if not self._whole:
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
        self._store.reset(self._only_ring, keep_statistics)

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
        """
        store = self._store
        rebuilt = key == "obs_next" and self._config.ignore_obs_next  # from the rows that follow
        if not (store.schema if rebuilt else store.has(key)):
            if default_value is not None:
                return default_value
            raise KeyError(f"{key}: there is no such field, but {', '.join(store.names()) or 'nothing at all'}")
        depth = self._stack_num if stack_num is None else stack_num
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


_FIRST = np.zeros(1, np.int64)


def _last_frame(value: Any, batched: bool) -> Any:
    if isinstance(value, dict):
        return {key: _last_frame(inner, batched) for key, inner in value.items()}
    return value[:, -1] if batched else value[-1]


def _with_axis(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The row with a leading axis of length 1."""
    leaves, groups = flatten(fields)
    return nest({path: as_array(leaf)[None] for path, leaf in leaves.items()}, groups)


def _nothing() -> dict[str, Any]:
    """A batch of no rows of a buffer that has no columns yet."""
    flag = np.zeros(0, np.bool_)
    empty: dict[str, Any] = {key: Batch() for key in ("obs", "act", "obs_next", "info", "policy")}
    return empty | {"rew": np.zeros(0), "terminated": flag, "truncated": flag.copy(), "done": flag.copy()}
