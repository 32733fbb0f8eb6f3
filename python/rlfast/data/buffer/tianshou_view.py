"""The private attributes of Tianshou's buffers that scripts read and write."""

from __future__ import annotations

from collections.abc import KeysView
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from rlfast._core import Replay
from rlfast.data.batch.batch import Batch, parse, wrap
from rlfast.data.buffer.options.config import Config
from rlfast.data.buffer.store import episodes, priorities
from rlfast.data.buffer.store.row_range import RowRange
from rlfast.data.buffer.store.store import Index, Store
from rlfast.utils.arguments.checks import count_of


class TianshouView:
    """The state of a buffer under the names of Tianshou's attributes.

    Attributes of one ring are, for a manager, those of its first ring, unless they have a meaning for all rings.
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

    _store: Store
    _core: Replay
    _config: Config
    _rows: RowRange
    maxsize: int

    def __len__(self) -> int:
        rows = self._rows
        return len(rows.core if rows.whole else rows)

    @property
    def _meta(self) -> Any:
        """The columns as a ``Batch`` that reads each column on access. Assigning to it assigns columns."""
        return Meta(self)

    @_meta.setter
    def _meta(self, batch: Batch) -> None:
        columns = dict(batch.items())
        for key in sorted(columns, key="done".__ne__):  # done comes first, as the other flags then overrule it
            self._assign_column(key, columns[key])

    def _assign_column(self, key: str, value: Any) -> None:
        if not self._rows.whole:
            raise NotImplementedError(f"assign {key} through the manager's _meta: these rows are part of its storage")
        self._core.hold(lambda: self._store.assign(key, value))

    @property
    def _save_obs_next(self) -> bool:
        return not self._config.ignore_obs_next

    @property
    def _save_only_last_obs(self) -> bool:
        return self._config.save_only_last_obs

    @property
    def _sample_avail(self) -> bool:
        return self._core.sample_avail

    @_sample_avail.setter
    def _sample_avail(self, value: bool) -> None:
        self._core.sample_avail = bool(value)

    @property
    def _indices(self) -> Index:
        return np.arange(self.maxsize)

    @property
    def _size(self) -> int:
        return len(self)

    @_size.setter
    def _size(self, value: int) -> None:
        ring, capacity = self._one_ring("_size")
        size = count_of("_size", value)
        if not 0 <= size <= capacity:
            raise ValueError(f"_size must be 0 to {capacity}, the size of the buffer, got {size}")
        self._store.resize(ring, size, int(self._core.cursors()[ring]) if size == capacity else size)

    @property
    def _index(self) -> int:
        return int(self._core.cursors()[self._rows.ring or 0])

    @_index.setter
    def _index(self, value: int) -> None:
        ring, capacity = self._one_ring("_index")
        index, size = count_of("_index", value), int(self._core.sizes()[ring])
        if not 0 <= index < max(capacity, 1):
            raise ValueError(f"_index must be below {capacity}, the size of the buffer, and not negative, got {index}")
        if size < capacity and index < size:
            raise ValueError(
                f"_index={index} within the {size} rows of a buffer that is not full: rows are written behind the last "
                "one; set _size first, or call reset"
            )
        if index != self._index:
            self._store.resize(ring, size if size == capacity else index, index)

    def _one_ring(self, name: str) -> tuple[int, int]:
        if self._rows.ring is None and len(self._store.capacities) > 1:
            raise AttributeError(f"{name} of a manager cannot be assigned to: assign to that of each of its buffers")
        ring = self._rows.ring or 0
        return ring, self._store.capacities[ring]

    @property
    def last_index(self) -> Index:
        """The newest row of each ring, or the first slot of a ring without rows. It cannot be changed."""
        return episodes.last_index(self._rows)

    @last_index.setter
    def last_index(self, value: Any) -> None:
        if not np.array_equal(np.ravel(value), self.last_index):
            raise ValueError(f"last_index follows from the rows: it is {self.last_index}, and cannot become {value}")

    @property
    def _ep_rew(self) -> float | NDArray[np.float64]:
        return self._running[0]

    @_ep_rew.setter
    def _ep_rew(self, value: float | NDArray[np.float64]) -> None:
        self._core.set_running(self._rows.ring or 0, value, *self._running[1:])

    @property
    def _ep_len(self) -> int:
        return self._running[1]

    @_ep_len.setter
    def _ep_len(self, value: int) -> None:
        total, _, start = self._running
        self._core.set_running(self._rows.ring or 0, total, count_of("_ep_len", value), start)

    @property
    def _ep_idx(self) -> int:
        return self._running[2] - self._rows.base

    @_ep_idx.setter
    def _ep_idx(self, value: int) -> None:
        start = count_of("_ep_idx", value)
        if not 0 <= start < max(self.maxsize, 1):
            raise ValueError(f"_ep_idx must be one of the {self.maxsize} rows, got {start}")
        self._core.set_running(self._rows.ring or 0, *self._running[:2], start + self._rows.base)

    @property
    def _running(self) -> tuple[float | NDArray[np.float64], int, int]:
        return self._core.running(self._rows.ring or 0)

    def _need_priorities(self, name: str) -> None:
        if not self._core.prioritized:
            raise priorities.missing(self, name)

    @property
    def _alpha(self) -> float:
        self._need_priorities("_alpha")
        return priorities.exponent(self._rows)

    @property
    def _beta(self) -> float:
        self._need_priorities("_beta")
        return self._core.beta

    @_beta.setter
    def _beta(self, value: float) -> None:
        self._need_priorities("_beta")
        priorities.set_beta(self._rows, value)

    @property
    def _weight_norm(self) -> bool:
        self._need_priorities("_weight_norm")
        return self._core.weight_norm

    @_weight_norm.setter
    def _weight_norm(self, value: bool) -> None:
        self._need_priorities("_weight_norm")
        self._core.weight_norm = bool(value)

    @property
    def _max_prio(self) -> float:
        self._need_priorities("_max_prio")
        return self._core.max_priority

    @_max_prio.setter
    def _max_prio(self, value: float) -> None:
        self._need_priorities("_max_prio")
        self._core.max_priority = float(value)

    @property
    def _min_prio(self) -> float:
        """The smallest priority of a row, to which importance weights relate; 1 without rows. It follows from them."""
        self._need_priorities("_min_prio")
        leaves = np.asarray(self._core.tree[np.arange(self._core.total)])
        least: float = np.min(leaves, where=leaves > 0, initial=np.inf)
        return 1.0 if least == np.inf else float(least ** (1 / self._alpha))


class Meta(Batch):
    """The columns of a buffer as a batch. Each column is read on access, as some must be assembled by the engine.

    Setting a field sets a column, and setting rows writes them. Writable arrays are the storage itself; ``obs``,
    ``obs_next`` and the flags are read-only.
    """

    __slots__ = ("_buffer",)

    def __init__(self, buffer: TianshouView) -> None:
        object.__setattr__(self, "_buffer", buffer)

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        return {key: self._column(key) for key in self.keys()}

    def _column(self, key: str) -> Any:
        return self._buffer._store.column(key, self._buffer._rows.span)

    def keys(self) -> KeysView[str]:
        """Returns the names of the columns."""
        return dict.fromkeys(self._buffer._store.names()).keys()

    get_keys = keys

    def __contains__(self, key: object) -> bool:
        return key in self.keys()

    def __getattr__(self, key: str) -> Any:
        return self._column(key) if key in self.keys() else super().__getattr__(key)

    def __setattr__(self, key: str, value: Any) -> None:
        self._buffer._assign_column(key, parse(value))

    def __getitem__(self, index: Any) -> Any:
        return self._column(index) if isinstance(index, str) else super().__getitem__(index)

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(index, str):
            setattr(self, index, value)
        else:
            self._write_rows(index, value)

    def _write_rows(self, index: Any, value: Any) -> None:
        value = parse(value)
        if not isinstance(value, Batch):
            raise ValueError(f"rows of a buffer are set to a Batch or a dict, got {type(value).__name__}")
        buffer = self._buffer
        base = buffer._rows.base
        rows = np.arange(base, base + buffer.maxsize)[index]
        buffer._core.hold(lambda: buffer._store.write_rows(rows, dict(value.items())))

    def update(self, batch: Any = None, **kwargs: Any) -> None:
        """Sets whole columns.

        :param batch: columns, or None.
        :param kwargs: more columns by name.
        """
        for key, value in Batch(batch, **kwargs).items():
            setattr(self, key, value)

    def empty_(self, index: Any = None) -> Self:
        """Sets all values of rows to 0, or None for objects.

        :param index: the rows; None for all.
        :return: this batch.
        """
        self._write_rows(slice(None) if index is None else index, {})
        return self

    def to_torch(self, *_: Any, **__: Any) -> Self:
        """Not supported, as columns are arrays.

        :raises TypeError: always.
        """
        raise TypeError("the columns of a buffer are arrays: make tensors of what is sampled")

    def to_torch_(self, *_: Any, **__: Any) -> None:
        """Not supported; see :meth:`to_torch`."""
        self.to_torch()

    def is_empty(self, recurse: bool = False) -> bool:
        """Returns whether there are no columns, because nothing was added."""
        return super().is_empty(recurse=True) if recurse else not self.keys()

    def __reduce__(self) -> Any:
        return Batch, (self.__dict__,)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return wrap(self.__dict__).__deepcopy__(memo)
