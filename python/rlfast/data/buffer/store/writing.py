"""The ways in which rows get into a buffer, and out of it again all at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rlfast._core import SchemaMismatch
from rlfast.data.batch.batch import Batch
from rlfast.data.buffer.store.row_range import Rows
from rlfast.data.buffer.store.store import Added, Index
from rlfast.data.schema import as_array, flatten, nest
from rlfast.utils.checks import check_copyable

if TYPE_CHECKING:
    from rlfast.data.buffer.base import ReplayBuffer


class Writing(Rows):
    """Adds rows, one or many, ends episodes and forgets."""

    _reserved_keys: ClassVar[tuple[str, ...]]

    def add(self, batch: Batch | Mapping[str, Any], buffer_ids: NDArray[Any] | list[int] | None = None) -> Added:
        """Appends a row.

        :param batch: ``obs``, ``act``, ``rew``, ``terminated``, ``truncated`` and what else there is; any nested shape.
        :param buffer_ids: when given, every field has a leading axis of length 1.
        :return: ``(index, episode_return, episode_length, episode_start)``, arrays of length 1; return and length are 0
            while the episode goes on.
        :raises KeyError: a field that every row needs is missing.
        :raises TypeError: a dtype that would lose information.
        :raises ValueError: another shape than the first row's. Whatever is raised, the buffer is as it was.
        """
        store = self._store
        if store.quick and self._quick_add:
            try:
                return store.core.add(batch.__dict__, None if buffer_ids is None else _FIRST)
            except (SchemaMismatch, AttributeError):
                pass
        rings = None
        if buffer_ids is not None or not self._whole:
            rings = np.array([self._ring or 0], np.int64)
        return self._add(batch, rings, batched=buffer_ids is not None)

    def _add(self, batch: Batch | Mapping[str, Any], rings: Index | None, *, batched: bool) -> Added:
        """The careful way: one row, or (``batched``) as many as ``rings``."""
        fields = self._kept(batch, batched=batched)
        if rings is not None and not batched:
            fields = _with_axis(fields)
        if self._store.plain and not self._store.quick:
            try:
                return self._named_outside(self._core.add(fields, rings))
            except SchemaMismatch:
                pass
        return self._named_outside(self._store.add(fields, rings))

    def _kept(self, batch: Batch | Mapping[str, Any], *, batched: bool) -> dict[str, Any]:
        """What is stored of a row: under ``save_only_last_obs`` the last frame alone."""
        fields = dict(batch.items())
        if self._config.save_only_last_obs:
            for key in {"obs", "obs_next"}.intersection(fields):
                fields[key] = _last_frame(fields[key], batched)
        return fields

    def _named_outside(self, added: Added) -> Added:
        if not self._base:
            return added
        index, episode_return, length, start = added
        return index - self._base, episode_return, length, start - self._base

    def append(
        self,
        *,
        obs: Any,
        act: Any,
        rew: Any,
        terminated: Any,
        truncated: Any,
        obs_next: Any = None,
    ) -> int:
        """Appends a row by keywords, without a ``Batch``: the quickest way in (of a buffer with one ring).

        :return: its index.
        :raises KeyError: as :meth:`add`, as are the other errors.
        """
        row = {"obs": obs, "act": act, "rew": rew, "terminated": terminated, "truncated": truncated}
        return int(self.add(row if obs_next is None else row | {"obs_next": obs_next})[0][0])

    def close_episodes(self, buffer_ids: NDArray[Any] | list[int] | None = None) -> None:
        """Ends running episodes where their environment is reset within one: cut off by time at their newest row.

        What is over already, or was never begun, stays as it is.

        :param buffer_ids: of which buffers; default all.
        """
        core = self._core
        for ring in self._rings_of(buffer_ids):
            core.close_episode(ring)
            if core.running(ring)[1]:  # its rows were forgotten by reset(keep_statistics=True)
                core.set_running(ring, 0.0, 0, core.offsets[ring] + int(core.cursors()[ring]))

    def _rings_of(self, buffer_ids: NDArray[Any] | list[int] | None) -> list[int]:
        ids = np.asarray([] if buffer_ids is None else buffer_ids)
        check_copyable(ids)
        if np.any(ids != 0):
            raise IndexError(f"this buffer has one ring, of buffer id 0, got {ids.tolist()}")
        return [self._ring or 0]

    def update(self, buffer: ReplayBuffer) -> Index:
        """Appends all rows of another buffer, oldest first, as they are stored.

        :param buffer: where they come from; it keeps them.
        :return: their indices here; none if there are no rows, or no room for any.
        """
        if len(buffer) == 0 or self.maxsize == 0:
            return np.array([], np.int64)
        rows = buffer._store.live(buffer._only_ring)
        fields = buffer._store.take(rows, stack_num=1)
        rings = np.full(len(rows), self._ring or 0, np.int64)
        return self._store.add(fields, rings)[0] - self._base

    def set_batch(self, batch: Batch) -> None:
        """Installs a whole storage; which rows are live, and their priorities, stay as they are.

        Columns of another dtype or shape than the stored ones can be read, but not be added to.

        :param batch: ``maxsize`` rows of reserved keys.
        :raises AssertionError: another length, or other keys.
        """
        fits = len(batch) == self.maxsize and set(batch.keys()).issubset(self._reserved_keys)
        assert fits, (
            f"a storage of {self.maxsize} rows with keys among {', '.join(self._reserved_keys)} is wanted, "
            f"got {len(batch)} rows of {', '.join(batch.keys())}"
        )
        if not self._whole:
            raise NotImplementedError("set_batch on the manager: this buffer's rows are part of its storage")
        self._store.install(dict(batch.items()))

    def reset(self, keep_statistics: bool = False) -> None:
        """Forgets all rows, and their priorities.

        :param keep_statistics: go on counting return and length of the running episode.
        """
        self._store.reset(self._only_ring, keep_statistics)


_FIRST = np.zeros(1, np.int64)


def _last_frame(value: Any, batched: bool) -> Any:
    if isinstance(value, dict):
        return {key: _last_frame(inner, batched) for key, inner in value.items()}
    return value[:, -1] if batched else value[-1]


def _with_axis(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The row with a leading axis of length 1."""
    leaves, groups = flatten(fields)
    return nest({path: as_array(leaf)[None] for path, leaf in leaves.items()}, groups)
