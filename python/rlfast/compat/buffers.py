"""Names of Tianshou's replay buffers: private attributes that scripts read and write, and methods for whole columns."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rlfast._core import Replay
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

    _store: Any
    _core: Replay
    _config: Any
    _rows: Any
    _need_priorities: Any
    _column_batch: Any
    _assign_column: Any
    set_beta: Any
    __getitem__: Any
    __len__: Any
    maxsize: int

    @property
    def _meta(self) -> Any:
        """The columns as a ``Batch`` that reads each column on access. Assigning to it assigns columns."""
        return self._column_batch()

    @_meta.setter
    def _meta(self, batch: Any) -> None:
        columns = dict(batch.items())
        for key in sorted(columns, key="done".__ne__):  # done comes first, as the other flags then overrule it
            self._assign_column(key, columns[key])

    @property
    def _save_obs_next(self) -> bool:
        return not self._config.ignore_obs_next

    @property
    def _save_only_last_obs(self) -> bool:
        return bool(self._config.save_only_last_obs)

    @property
    def _sample_avail(self) -> bool:
        return self._core.sample_avail

    @_sample_avail.setter
    def _sample_avail(self, value: bool) -> None:
        self._core.sample_avail = bool(value)

    @property
    def _indices(self) -> NDArray[np.int64]:
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
        return self._running[2] - int(self._rows.base)

    @_ep_idx.setter
    def _ep_idx(self, value: int) -> None:
        start = count_of("_ep_idx", value)
        if not 0 <= start < max(self.maxsize, 1):
            raise ValueError(f"_ep_idx must be one of the {self.maxsize} rows, got {start}")
        self._core.set_running(self._rows.ring or 0, *self._running[:2], start + self._rows.base)

    @property
    def _running(self) -> tuple[float | NDArray[np.float64], int, int]:
        return self._core.running(self._rows.ring or 0)

    @property
    def _beta(self) -> float:
        self._need_priorities("_beta")
        return self._core.beta

    @_beta.setter
    def _beta(self, value: float) -> None:
        self._need_priorities("_beta")
        self.set_beta(value)

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

    # -- whole columns -----------------------------------------------------------------------------------------------
    def set_batch(self, batch: Any) -> None:
        """Replaces all columns. Which rows are live, and their priorities, stay the same.

        If a column has another dtype or shape than the stored one, rows can be read, but not added.

        :param batch: ``maxsize`` rows with reserved keys.
        :raises AssertionError: if the length or the keys are others.
        :raises NotImplementedError: if the buffer is part of a manager.
        """
        if len(batch) != self.maxsize or not set(batch.keys()).issubset(self._reserved_keys):
            raise AssertionError(
                f"a storage of {self.maxsize} rows with keys among {', '.join(self._reserved_keys)} is wanted, "
                f"got {len(batch)} rows of {', '.join(batch.keys())}"
            )
        if not self._rows.whole:
            raise NotImplementedError("set_batch on the manager: this buffer's rows are part of its storage")
        self._core.hold(lambda: self._store.install(dict(batch.items())))

    def isnull(self) -> Any:
        """Returns where values of the rows are missing; see :meth:`rlfast.data.Batch.isnull`.

        :return: a batch of booleans with one row for each stored row, oldest first.
        """
        return self[:].isnull()

    def hasnull(self) -> bool:
        """Returns whether a value of any row is missing."""
        return bool(self[:].hasnull())

    def set_array_at_key(
        self, seq: NDArray[Any], key: str, index: object = None, default_value: float | None = None
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
        self._core.hold(lambda: self._meta.set_array_at_key(seq, key, index, default_value))
