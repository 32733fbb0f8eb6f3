"""What Tianshou's scripts read of a buffer's state, shown from the engine."""

from __future__ import annotations

from typing import Any, ClassVar

from rlfast.data.batch.batch import Batch
from rlfast.data.buffer._counters import Counters
from rlfast.data.buffer._meta import Meta


class Attributes(Counters):
    """Whole columns by name (``buffer.obs``), and the names that start with an underscore."""

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

    def __getattr__(self, key: str) -> Any:
        if "_store" not in self.__dict__:
            raise AttributeError(key)  # before __init__ or unpickling is through
        try:
            return self._store.column(key, self._span())
        except KeyError:
            raise AttributeError(f"{type(self).__name__!r} has no attribute or stored field {key!r}") from None

    def __setattr__(self, key: str, value: Any) -> None:
        assert key not in self._reserved_keys, f"key '{key}' is reserved and cannot be assigned"
        object.__setattr__(self, key, value)

    def __repr__(self) -> str:
        return type(self).__name__ + repr(self._meta)[len(type(self._meta).__name__) :]

    @property
    def _meta(self) -> Any:
        """The stored columns as a ``Batch``, made when they are looked at; assigning to it assigns columns."""
        return Meta(self)

    @_meta.setter
    def _meta(self, batch: Batch) -> None:
        columns = dict(batch.items())
        for key in sorted(columns, key="done".__ne__):  # what is done follows from the flags that come after it
            self._assign_column(key, columns[key])

    def _assign_column(self, key: str, value: Any) -> None:
        if not self._whole:
            raise NotImplementedError(f"assign {key} through the manager's _meta: these rows are part of its storage")
        self._store.assign(key, value)

    @property
    def nbytes(self) -> int:
        """Bytes that the rows take in memory or on disk, without object leaves; of all rings of a manager's storage."""
        return self._core.nbytes()

    @property
    def stack_num(self) -> int:
        """Frames in a sampled ``obs``; may be changed at any time."""
        return self._stack_num

    @stack_num.setter
    def stack_num(self, value: int) -> None:
        assert value > 0, "stack_num should be greater than 0"
        self._stack_num = int(value)
        if self._whole:
            self._core.stack_num = int(value)

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
