"""Whole episodes only: rows wait in a ring of their environment until their episode is over."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as AbstractSequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlfast.data.batch.batch import Batch
from rlfast.data.buffer.base import ReplayBuffer
from rlfast.data.buffer.manager import ReplayBufferManager
from rlfast.data.buffer.store import writing
from rlfast.data.buffer.store.store import Added, Index
from rlfast.utils.arguments.checks import check_copyable, count_of
from rlfast.utils.runtime.seeding import draw_seed


class CachedReplayBuffer(ReplayBufferManager):
    """A main buffer and a cache for each environment, in one storage: ``| main | cache 0 | cache 1 | ...``.

    A row goes into the cache of its environment. When its episode ends, the episode moves to the main buffer.

    :param main_buffer: an empty buffer of one ring; a main buffer of size 0 keeps nothing.
    :param cached_buffer_num: caches, one for each environment.
    :param max_episode_length: rows of each cache; of a longer episode the last rows are kept.
    :param seed: of the random streams; None draws one from ``np.random``.
    :param storage: where rows are: see :class:`ReplayBuffer`.
    :raises AssertionError: a number below 1, or a main buffer with rows or with several rings.

    >>> from rlfast.data import Batch, CachedReplayBuffer, ReplayBuffer
    >>> buf = CachedReplayBuffer(ReplayBuffer(10, seed=0), cached_buffer_num=2, max_episode_length=5, seed=0)
    >>> rows = dict(obs=[0, 1], act=[0, 0], rew=[1.0, 2.0], truncated=[False, False], obs_next=[1, 2])
    >>> index, ep_rew, ep_len, ep_start = buf.add(Batch(**rows, terminated=[False, True]))
    >>> index, ep_rew
    (array([10,  0]), array([0., 2.]))
    """

    def __init__(
        self,
        main_buffer: ReplayBuffer,
        cached_buffer_num: int,
        max_episode_length: int,
        *,
        seed: int | None = None,
        storage: str = "ram",
    ) -> None:
        cached_buffer_num = count_of("cached_buffer_num", cached_buffer_num, least=1)
        max_episode_length = count_of("max_episode_length", max_episode_length, least=1)
        assert isinstance(main_buffer, ReplayBuffer), f"main_buffer must be a ReplayBuffer, got {main_buffer!r}"
        assert not isinstance(main_buffer, ReplayBufferManager), (
            "main_buffer must have one ring; a manager cannot be updated"
        )
        assert not main_buffer._store.names(), "main_buffer must be empty: its storage would move"
        capacities = [main_buffer.maxsize] + [max_episode_length] * cached_buffer_num
        caches = [object.__new__(ReplayBuffer) for _ in range(cached_buffer_num)]
        self._setup(capacities, main_buffer._config, draw_seed(seed), storage, [main_buffer, *caches])

    def _adopt(self, buffers: AbstractSequence[Any]) -> None:
        super()._adopt(buffers)
        self.main_buffer: ReplayBuffer = self.buffers[0]
        self.cached_buffers: NDArray[np.object_] = self.buffers[1:]
        self.cached_buffer_num = len(self.cached_buffers)

    def add(self, batch: Batch | Mapping[str, Any], buffer_ids: NDArray[Any] | list[int] | None = None) -> Added:
        """Appends one row to each of several caches, and moves the episodes that end.

        :param batch: as for :meth:`ReplayBufferManager.add`.
        :param buffer_ids: a cache for each row, from 0; default all, in order.
        :return: ``(index, episode_return, episode_length, episode_start)``; of an episode that ended, where its last
            and first row stand in the main buffer, or -1 if that has size 0.
        :raises IndexError: there is no such cache.
        """
        ids = self._caches(buffer_ids)
        if len(np.unique(ids)) < len(ids):
            return self._core.hold(partial(self._add_one_by_one, Batch(dict(batch.items())), ids))
        return self._core.hold(partial(self._add_rows, batch, ids))

    def _caches(self, buffer_ids: NDArray[Any] | list[int] | None) -> Index:
        """Returns the numbers of caches."""
        ids = self._all_rings[:-1] if buffer_ids is None else np.asarray(buffer_ids, np.int64)
        check_copyable(ids)
        for cache in ids[(ids < 0) | (ids >= self.cached_buffer_num)].tolist():
            raise IndexError(f"cache {cache} is out of range: there are {self.cached_buffer_num}")
        return ids

    def _add_rows(self, batch: Batch | Mapping[str, Any], ids: Index) -> Added:
        """A row of each of several caches; episodes that end move."""
        index, episode_return, length, start = super().add(batch, ids + 1)
        index, start = index.copy(), start.copy()
        for place in np.flatnonzero(length):
            moved = self._move(ids[place])
            start[place], index[place] = (moved[0], moved[-1]) if len(moved) else (-1, -1)
        return index, episode_return, length, start

    def _add_one_by_one(self, batch: Batch, ids: Index) -> Added:
        """Several rows of one cache: an episode moves without the rows that follow it."""
        cuts = self._config.save_only_last_obs
        self._store.check(writing.last_frames(batch, batched=True) if cuts else batch, len(ids))  # all rows or none
        answers = [self._add_rows(batch[place : place + 1], ids[place : place + 1]) for place in range(len(ids))]
        index, episode_return, length, start = (np.concatenate(parts) for parts in zip(*answers, strict=True))
        return index, episode_return, length, start

    def _move(self, cache_id: int) -> Index:
        """An episode that is over goes to the main buffer: its rows there."""
        return writing.move_all(self.main_buffer._rows, self.cached_buffers[cache_id]._rows)

    def close_episodes(self, buffer_ids: NDArray[Any] | list[int] | None = None) -> None:
        """Ends running episodes, cut off by time at their newest row, and moves them to the main buffer.

        :param buffer_ids: of which caches, from 0; default all.
        """
        self._core.hold(partial(self._close_episodes, self._caches(buffer_ids)))

    def _close_episodes(self, ids: Index) -> None:
        super().close_episodes(ids + 1)
        for cache_id in ids.tolist():
            self._move(cache_id)
