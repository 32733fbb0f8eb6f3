"""``buffer._meta``: the storage as a ``Batch``."""

from __future__ import annotations

from collections.abc import KeysView
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from rlfast.data.batch.batch import Batch, parse, wrap

if TYPE_CHECKING:
    from rlfast.data.buffer._attributes import Attributes


class Meta(Batch):
    """The columns of a buffer, each fetched when it is looked at: some must be put together from the engine's form.

    Setting a field sets the buffer's column, and setting rows writes them. Arrays that may be written are the storage
    itself; ``obs``, ``obs_next`` and the flags are read-only.
    """

    __slots__ = ("_buffer",)

    def __init__(self, buffer: Attributes) -> None:
        object.__setattr__(self, "_buffer", buffer)

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        return {key: self._column(key) for key in self.keys()}

    def _column(self, key: str) -> Any:
        return self._buffer._store.column(key, self._buffer._span())

    def keys(self) -> KeysView[str]:
        """The names of the columns."""
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
        rows = np.arange(buffer._base, buffer._base + buffer.maxsize)[index]
        buffer._store.write_rows(rows, dict(value.items()))

    def update(self, batch: Any = None, **kwargs: Any) -> None:
        """Sets whole columns."""
        for key, value in Batch(batch, **kwargs).items():
            setattr(self, key, value)

    def empty_(self, index: Any = None) -> Self:
        """Sets rows, or all of them, to 0, None for objects."""
        self._write_rows(slice(None) if index is None else index, {})
        return self

    def to_torch(self, *_: Any, **__: Any) -> Self:
        """Not for columns: they are arrays."""
        raise TypeError("the columns of a buffer are arrays: make tensors of what is sampled")

    def to_torch_(self, *_: Any, **__: Any) -> None:
        """Not for columns, either."""
        self.to_torch()

    def is_empty(self, recurse: bool = False) -> bool:
        """Whether nothing was ever added."""
        return super().is_empty(recurse=True) if recurse else not self.keys()

    def __reduce__(self) -> Any:
        return Batch, (self.__dict__,)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return wrap(self.__dict__).__deepcopy__(memo)
