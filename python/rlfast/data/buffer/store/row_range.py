"""Which rows of the storage a buffer owns, and how they are named from outside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeGuard

import numpy as np

from rlfast import _core
from rlfast._core import carried, carry
from rlfast.data.buffer.store.store import Index, Store
from rlfast.data.buffer.units import Transition
from rlfast.utils.checks import check_copyable

if TYPE_CHECKING:
    from rlfast._core import Replay
    from rlfast.data.buffer.config import Config


class Rows:
    """One ring of a store, or all of them.

    A manager's children share its store: rows are *global* inside and count from the child's own first row outside.

    :ivar maxsize: rows at most.
    """

    _sampler_kind: ClassVar[type] = object  # what a file of this class must hold
    _quick_class: ClassVar[bool] = True  # no subclass has its own way of drawing or reading rows
    _plain_append: ClassVar[bool] = True  # nor of adding them
    _store: Store
    _core: Replay
    _config: Config
    _ring: int | None
    _base: int
    _whole: bool
    maxsize: int
    options: dict[str, Any]

    def _setup(
        self,
        capacities: list[int],
        config: Config,
        seed: int,
        storage: str = "ram",
        buffers: Sequence[Any] = (),
    ) -> None:
        """Makes the storage; ``buffers``, one for each ring of a manager, become parts of it."""
        assert not buffers
        self._attach(Store(capacities, config, seed, storage), 0)
        self.options = self._options()

    def _options(self) -> dict[str, Any]:
        """Constructor arguments."""
        return self._config.options()

    def _attach(self, store: Store, ring: int | None) -> None:
        """Takes a ring of a store, or (None) all of them, as this buffer's rows."""
        rings = len(store.capacities)
        self._store, self._config, self._core, self._ring = store, store.config, store.core, ring
        self._whole = ring is None or rings == 1
        self._base = 0 if ring is None else store.offsets[ring]
        self.__dict__["maxsize"] = store.core.total if ring is None else store.capacities[ring]
        self._stack_num = store.config.stack_num
        self._quick_add = rings == 1
        self._quick_sample = (
            self._quick_class
            and self._whole
            and isinstance(store.config.unit, Transition)
            and store.config.relabel is None
        )
        self._bind()

    def _bind(self) -> None:
        """Puts the engine's ``append`` on the buffer itself: what the class's way there costs, shows."""
        self.__dict__.pop("append", None)
        if self._quick_add and self._plain_append and not self._config.save_only_last_obs:
            self.__dict__["append"] = self._core.append

    @property
    def _only_ring(self) -> int | None:
        """What the engine is told to look at: all of the store, or this ring alone."""
        return None if self._whole else self._ring

    def __len__(self) -> int:
        return len(self._core) if self._whole else int(self._core.sizes()[self._ring])

    def _span(self) -> slice | None:
        return None if self._whole else slice(self._base, self._base + self.maxsize)

    def _straight(self, index: Any) -> TypeGuard[Index]:
        """Whether the engine takes ``index`` as it is; after an IndexError it is the turn of :meth:`_rows`."""
        return type(index) is np.ndarray and index.dtype == np.int64 and self._whole

    def _rows(self, index: Any) -> Index:
        """Global rows of whatever may stand between brackets.

        :raises IndexError: out of range, or no index at all.
        """
        if isinstance(index, slice):
            if index == slice(None):
                return self._core.chronological(self._only_ring)
            rows: Index = np.sort(self._store.live(self._only_ring))[index]
            return rows
        rows = index if isinstance(index, np.ndarray) else np.asarray(index)
        check_copyable(rows)
        if rows.dtype == np.bool_:
            if rows.shape != (self.maxsize,):
                raise IndexError(f"a mask needs shape ({self.maxsize},), got {rows.shape}")
            rows = np.flatnonzero(rows)
        elif rows.dtype != np.int64:
            if rows.size and rows.dtype.kind not in "iu":
                raise IndexError(f"rows are named by integers, got {rows.dtype}")
            rows = rows.astype(np.int64)
        size = self.maxsize
        if rows.size and rows.view(np.uint64).max() >= size:  # rows below 0 are large numbers then
            rows = np.where(rows < 0, rows + size, rows)
            if rows.max() >= size or rows.min() < 0:
                raise IndexError(f"index {index} is out of range for a buffer of {size} rows")
        return shift(rows, self._base)

    def _outside(self, rows: Index) -> Index:
        """Global rows as they are named from outside."""
        return shift(rows, -self._base)


def shift(rows: Index, by: int) -> Index:
    """The rows ``by`` further on, with all they remember."""
    return _core.shift(rows, by) if by else rows


def with_goals(rows: Index, others: Index) -> Index:
    """``others``, one or more for each of ``rows``, with the goals that ``rows`` remember."""
    goals = carried(rows)
    if goals is None:
        return others
    goals = goals.reshape(goals.shape + (1,) * (others.ndim - goals.ndim))
    return carry(others, np.broadcast_to(goals, others.shape).copy())
