"""The replay buffer: Tianshou's names over the Rust engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from rlfast.data.batch.batch import Batch, wrap
from rlfast.data.buffer._config import Config, ignore_unknown
from rlfast.data.buffer._episodes import Episodes
from rlfast.data.buffer._files import Files, draw_seed
from rlfast.data.buffer._inspection import Inspection
from rlfast.data.buffer._out import Out, check_weight, fill_weight, fillable
from rlfast.data.buffer._samplers import Prioritized, Uniform
from rlfast.data.buffer._store import Index
from rlfast.data.buffer._units import NStep, Sequence, Unit
from rlfast.data.buffer._writing import Writing
from rlfast.utils.checks import count_of

if TYPE_CHECKING:
    from rlfast.data.buffer._relabel import Hindsight

TBuffer = TypeVar("TBuffer", bound="ReplayBuffer")
IndexLike = int | slice | list[int] | NDArray[Any]
_STACKED = frozenset({"obs", "obs_next", "info", "policy"})


class MalformedBufferError(RuntimeError):
    """A buffer's rows are not as they must be."""


class ReplayBuffer(Inspection, Writing, Episodes, Files):
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


def _nothing() -> dict[str, Any]:
    """A batch of no rows of a buffer that has no columns yet."""
    flag = np.zeros(0, np.bool_)
    empty: dict[str, Any] = {key: Batch() for key in ("obs", "act", "obs_next", "info", "policy")}
    return empty | {"rew": np.zeros(0), "terminated": flag, "truncated": flag.copy(), "done": flag.copy()}
