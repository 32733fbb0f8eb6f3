"""rlfast's buffers for Tianshou 1.0, 1.2 and 2.0.

Each class is a subclass of both Tianshou's and rlfast's class of that name. Tianshou's collectors, trainers and
algorithms accept it, and it returns Tianshou's ``Batch``; rows, priorities and draws are those of rlfast's engine. Only
one line of a script changes::

    - from tianshou.data import VectorReplayBuffer
    + from rlfast.interop.tianshou import VectorReplayBuffer
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from rlfast import data
from rlfast._core import Replay
from rlfast.data.batch.batch import wrap
from rlfast.data.buffer.store import writing
from rlfast.data.buffer.store.column_batch import ColumnBatch
from rlfast.data.buffer.store.row_range import RowRange
from rlfast.data.buffer.store.store import Added, Index, Store
from rlfast.interop._hosts import missing

try:
    from tianshou import data as host
except ImportError as error:
    raise missing(__name__, "Tianshou", 'pip install "tianshou>=1.0,<2.1"') from error

__all__ = [
    "CachedReplayBuffer",
    "HERReplayBuffer",
    "HERReplayBufferManager",
    "HERVectorReplayBuffer",
    "PrioritizedReplayBuffer",
    "PrioritizedReplayBufferManager",
    "PrioritizedVectorReplayBuffer",
    "ReplayBuffer",
    "ReplayBufferManager",
    "VectorReplayBuffer",
]

_MANY = 4096
_UNCHECKED: WeakKeyDictionary[Store, list[Index]] = WeakKeyDictionary()
"""Rows that were added to a storage since ``hasnull`` last found none; without an entry, all rows must be checked."""


def ours(value: object) -> Any:
    """Converts a ``Batch`` of Tianshou to one of rlfast with the same arrays; returns other values unchanged."""
    if not isinstance(value, host.Batch):
        return value
    return wrap({key: ours(inner) for key, inner in value.__dict__.items()})


def theirs(value: object) -> Any:
    """Converts a ``Batch`` of rlfast to one of Tianshou with the same arrays; returns other values unchanged."""
    if not isinstance(value, data.Batch):
        return value
    batch = host.Batch()
    batch.__dict__.update({key: theirs(inner) for key, inner in value.__dict__.items()})
    return batch


class _HostMeta(ColumnBatch, host.Batch):
    """``buffer._meta`` as Tianshou's code reads and assigns it."""

    __slots__ = ()

    def _column(self, key: str) -> Any:
        return theirs(super()._column(key))

    def __setattr__(self, key: str, value: object) -> None:
        super().__setattr__(key, ours(value))

    def __getitem__(self, index: object) -> Any:
        return self._column(index) if isinstance(index, str) else host.Batch(self.__dict__)[index]

    def __reduce__(self) -> Any:
        return host.Batch, (self.__dict__,)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return host.Batch(self.__dict__, copy=True)


class _Hosted:
    """A mixin that converts the batches of a buffer of rlfast, which follows it in the bases, to those of Tianshou.

    :param random_seed: the name of ``seed`` in Tianshou 1.2.
    """

    if TYPE_CHECKING:
        _core: Replay
        _store: Store
        _rows: RowRange
        maxsize: int
        __len__: Any

    def __init__(self, *args: Any, random_seed: int | None = None, **kwargs: Any) -> None:
        if random_seed is not None:
            kwargs.setdefault("seed", random_seed)
        super().__init__(*args, **kwargs)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = (getattr(cls, name) is getattr(_Hosted, name) for name in ("__getitem__", "get"))
        drawn = getattr(cls, "sample_indices", None) is data.ReplayBuffer.sample_indices
        cls._reads = all(own) and drawn  # type: ignore[attr-defined]

    # -- rows, as batches of Tianshou --------------------------------------------------------------------------------
    def add(self, batch: object, buffer_ids: object = None) -> Added:
        """Adds rows, as Tianshou's ``add`` does."""
        added: Added = super().add(ours(batch), buffer_ids)  # type: ignore[misc]
        unchecked = _UNCHECKED.get(self._store)
        if unchecked is not None:
            unchecked.append(added[0] + self._rows.base)
            if len(unchecked) > _MANY:
                del _UNCHECKED[self._store]
        return added

    def sample(self, batch_size: int | None, out: object = None) -> tuple[Any, Index]:
        """Samples rows, as Tianshou's ``sample`` does; ``out`` is that of :meth:`rlfast.data.ReplayBuffer.sample`."""
        batch, index = super().sample(batch_size, out)  # type: ignore[misc]
        return theirs(batch), index

    def __getitem__(self, index: object) -> Any:
        return theirs(super().__getitem__(index))  # type: ignore[misc]

    def get(self, index: object, key: str, default_value: object = None, stack_num: int | None = None) -> Any:
        """Returns values of a field, as Tianshou's ``get`` does."""
        return theirs(super().get(index, key, default_value, stack_num))  # type: ignore[misc]

    def __getattr__(self, key: str) -> Any:
        return theirs(super().__getattr__(key))  # type: ignore[misc]

    def set_batch(self, batch: object) -> None:
        """Replaces all columns, as Tianshou's ``set_batch`` does."""
        _UNCHECKED.pop(self._store, None)
        super().set_batch(ours(batch))  # type: ignore[misc]

    def update(self, buffer: host.ReplayBuffer) -> Index:
        """Appends all rows of another buffer.

        :param buffer: a buffer of rlfast or of Tianshou.
        :return: the indices of these rows in this buffer.
        """
        _UNCHECKED.pop(self._store, None)
        if isinstance(buffer, data.ReplayBuffer) or self._rows.ring is None:  # managers have no such method
            return super().update(buffer)  # type: ignore[misc,no-any-return]
        if self.maxsize == 0 or len(buffer) == 0:
            return np.array([], np.int64)
        stack_num, buffer.stack_num = buffer.stack_num, 1
        rows = buffer.sample_indices(0)
        buffer.stack_num = stack_num
        sizes = [len(one) for one in getattr(buffer, "buffers", [buffer])]
        fields = {**ours(buffer._meta[rows]).__dict__}
        writing.cut_between(fields, np.repeat(np.arange(len(sizes)), sizes))
        added: Added = self._core.add(fields, np.full(len(rows), self._rows.ring, np.int64))
        return added[0] - self._rows.base

    def reset(self, keep_statistics: bool = False) -> None:
        """Deletes all rows, as Tianshou's ``reset`` does."""
        _UNCHECKED.pop(self._store, None)
        super().reset(keep_statistics)  # type: ignore[misc]

    # -- columns -----------------------------------------------------------------------------------------------------
    def _column_batch(self) -> Any:
        return _HostMeta(self)  # type: ignore[arg-type]

    @property
    def _meta(self) -> Any:
        return self._column_batch()

    @_meta.setter
    def _meta(self, batch: host.Batch) -> None:
        for key, value in list(batch.items()):
            self._assign_column(key, value)

    def _assign_column(self, key: str, value: object) -> None:
        _UNCHECKED.pop(self._store, None)
        super()._assign_column(key, ours(value))  # type: ignore[misc]

    def set_array_at_key(
        self, seq: NDArray[Any], key: str, index: object = None, default_value: float | None = None
    ) -> None:
        """Sets rows of a field, or adds a field (a method of Tianshou 1.2).

        :param seq: the values, for all ``maxsize`` rows or for those at ``index``.
        :param key: the name of the field.
        :param index: the rows; None for all.
        :param default_value: the value of the other rows of a new field; None becomes NaN.
        :raises ValueError: the field is a ``Batch``, or there is not one value for each row.
        :raises TypeError: the dtype of ``seq`` cannot hold ``default_value``.
        """
        column = np.asarray(seq)
        if index is not None:
            if key in self._store.names():
                column = getattr(self, key)
                if isinstance(column, host.Batch):
                    raise ValueError(f"{key} is a Batch: only the rows of an array can be set")
                column = column if column.flags.writeable else np.array(column)
            else:
                column = np.array([default_value] * self.maxsize, column.dtype)
            rows: Any = index
            column[rows] = seq
        self._assign_column(key, column)

    # -- nulls -------------------------------------------------------------------------------------------------------
    def hasnull(self) -> bool:
        """Whether a row has NaN or None. Tianshou 1.2 calls this after every collect.

        Each row is checked once, after it was added. Later writes into arrays such as ``buffer.rew`` are not checked.
        """
        unchecked = _UNCHECKED.get(self._store)
        if unchecked is None:
            live = self._store.live(None)
            unchecked = [live[start : start + _MANY] for start in range(0, len(live), _MANY)]
        elif unchecked:
            unchecked = [np.concatenate(unchecked)]
        found = any(wrap(self._store.take(rows, stack_num=1)).hasnull() for rows in unchecked)
        if found:
            _UNCHECKED.pop(self._store, None)
        else:
            _UNCHECKED[self._store] = []
        return found

    def dropnull(self) -> None:
        """Not supported, because rows belong to episodes: use ``buffer[:].dropnull()``.

        :raises NotImplementedError: always.
        """
        raise NotImplementedError("rows cannot be taken out of a buffer: use the batch buffer[:].dropnull()")

    def _restore_cache(self) -> None:
        """Does nothing, because hindsight goals are never written into the storage."""


class _HostedManager(_Hosted):
    """A mixin for managers, whose parts become buffers of this module."""

    def _adopt(self, buffers: Sequence[Any]) -> None:
        parts = [part if isinstance(part, _Hosted) else object.__new__(_CHILDREN[type(part)]) for part in buffers]
        super()._adopt(parts)  # type: ignore[misc]


class ReplayBuffer(_Hosted, data.ReplayBuffer, host.ReplayBuffer):
    """:class:`rlfast.data.ReplayBuffer` for Tianshou."""


class PrioritizedReplayBuffer(_Hosted, data.PrioritizedReplayBuffer, host.PrioritizedReplayBuffer):
    """:class:`rlfast.data.PrioritizedReplayBuffer` for Tianshou."""


class HERReplayBuffer(_Hosted, data.HERReplayBuffer, host.HERReplayBuffer):
    """:class:`rlfast.data.HERReplayBuffer` for Tianshou."""


class ReplayBufferManager(_HostedManager, data.ReplayBufferManager, host.ReplayBufferManager):
    """:class:`rlfast.data.ReplayBufferManager` for Tianshou."""


class PrioritizedReplayBufferManager(
    _HostedManager, data.PrioritizedReplayBufferManager, host.PrioritizedReplayBufferManager
):
    """:class:`rlfast.data.PrioritizedReplayBufferManager` for Tianshou."""


class HERReplayBufferManager(_HostedManager, data.HERReplayBufferManager, host.HERReplayBufferManager):
    """:class:`rlfast.data.HERReplayBufferManager` for Tianshou."""


class VectorReplayBuffer(_HostedManager, data.VectorReplayBuffer, host.VectorReplayBuffer):
    """:class:`rlfast.data.VectorReplayBuffer` for Tianshou."""


class PrioritizedVectorReplayBuffer(
    _HostedManager, data.PrioritizedVectorReplayBuffer, host.PrioritizedVectorReplayBuffer
):
    """:class:`rlfast.data.PrioritizedVectorReplayBuffer` for Tianshou."""


class HERVectorReplayBuffer(_HostedManager, data.HERVectorReplayBuffer, host.HERVectorReplayBuffer):
    """:class:`rlfast.data.HERVectorReplayBuffer` for Tianshou."""


class CachedReplayBuffer(_HostedManager, data.CachedReplayBuffer, host.CachedReplayBuffer):
    """:class:`rlfast.data.CachedReplayBuffer` for Tianshou."""


_CHILDREN = {
    data.ReplayBuffer: ReplayBuffer,
    data.PrioritizedReplayBuffer: PrioritizedReplayBuffer,
    data.HERReplayBuffer: HERReplayBuffer,
}
