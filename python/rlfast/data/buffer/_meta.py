"""``buffer._meta``: the storage as a ``Batch``."""

from __future__ import annotations

from collections.abc import KeysView
from typing import TYPE_CHECKING, Any

from rlfast.data.batch.batch import Batch, parse, wrap

if TYPE_CHECKING:
    from rlfast.data.buffer._attributes import Attributes


class Meta(Batch):
    """The columns of a buffer, each fetched when it is looked at: some must be put together from the engine's form.

    Setting a field sets the buffer's column. Arrays that may be written are the storage itself; ``obs``, ``obs_next``
    and the flags are read-only.
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
        if not isinstance(index, str):
            raise TypeError("rows of a buffer are written by add, update and set_batch; its _meta takes whole columns")
        setattr(self, index, value)

    def is_empty(self, recurse: bool = False) -> bool:
        """Whether nothing was ever added."""
        return super().is_empty(recurse=True) if recurse else not self.keys()

    def __reduce__(self) -> Any:
        return Batch, (self.__dict__,)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return wrap(self.__dict__).__deepcopy__(memo)
