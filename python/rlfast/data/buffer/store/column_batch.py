"""The columns of a buffer as a batch."""

from __future__ import annotations

from collections.abc import KeysView
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rlfast.data.batch.batch import Batch, parse, wrap
from rlfast.data.buffer.store.row_range import HasRows


class ColumnBatch(Batch):
    """The columns of a buffer as a batch. Each column is read on access, as some must be assembled by the engine.

    Setting a field sets a column, and setting rows writes them. Writable arrays are the storage itself; ``obs``,
    ``obs_next`` and the flags are read-only.
    """

    __slots__ = ("_buffer",)

    def __init__(self, buffer: HasRows) -> None:
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

    def __setattr__(self, key: str, value: object) -> None:
        self._buffer._assign_column(key, parse(value))

    def __getitem__(self, index: object) -> Any:
        return self._column(index) if isinstance(index, str) else super().__getitem__(index)

    def __setitem__(self, index: object, value: object) -> None:
        if isinstance(index, str):
            setattr(self, index, value)
        else:
            self._write_rows(index, value)

    def _write_rows(self, index: Any, value: object) -> None:
        value = parse(value)
        if not isinstance(value, Batch):
            raise ValueError(f"rows of a buffer are set to a Batch or a dict, got {type(value).__name__}")
        buffer = self._buffer
        base = buffer._rows.base
        rows = np.arange(base, base + buffer.maxsize)[index]
        buffer._core.hold(lambda: buffer._store.write_rows(rows, dict(value.items())))

    def update(self, batch: dict[str, Any] | Batch | None = None, **kwargs: Any) -> None:
        """Sets whole columns.

        :param batch: columns, or None.
        :param kwargs: more columns by name.
        """
        for key, value in Batch(batch, **kwargs).items():
            setattr(self, key, value)

    def set_array_at_key(
        self, seq: NDArray[Any], key: str, index: Any = None, default_value: float | None = None
    ) -> None:
        """Sets a column, or some of its rows; see :meth:`rlfast.data.ReplayBuffer.set_array_at_key`."""
        columns = Batch(_rows=np.empty(self._buffer.maxsize, bool))
        if index is not None and key in self:
            columns[key] = np.array(self[key])
        columns.set_array_at_key(seq, key, index, default_value)
        setattr(self, key, columns[key])

    def empty_(self, index: object = None) -> Self:
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
