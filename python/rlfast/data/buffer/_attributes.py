"""What Tianshou's scripts read of a buffer's state, shown from the engine."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rlfast.data.batch.batch import Batch
from rlfast.data.buffer._meta import Meta
from rlfast.data.buffer._rows import Rows
from rlfast.data.buffer._store import Index


class Attributes(Rows):
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
        for key, value in list(batch.items()):
            self._assign_column(key, value)

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

    @property
    def _size(self) -> int:
        return len(self)

    @property
    def _index(self) -> int:
        return int(self._core.cursors()[self._ring or 0])

    @property
    def last_index(self) -> Index:
        """Newest row of each ring; where there is none, the ring's first."""
        rings = slice(None) if self._ring is None else slice(self._ring, self._ring + 1)
        offsets = np.array(self._core.offsets[rings], np.int64)
        capacities = np.maximum(self._core.capacities[rings], 1)
        last = offsets + (self._core.cursors()[rings] - 1) % capacities
        return np.where(self._core.sizes()[rings] > 0, last, offsets) - self._base

    @property
    def _ep_rew(self) -> float | NDArray[np.float64]:
        return self._core.running(self._ring or 0)[0]

    @property
    def _ep_len(self) -> int:
        return self._core.running(self._ring or 0)[1]

    @property
    def _ep_idx(self) -> int:
        return self._core.running(self._ring or 0)[2] - self._base
