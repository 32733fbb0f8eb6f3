"""Managers: several buffers in one storage, usually one for each environment."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as AbstractSequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlfast.data.batch.batch import Batch
from rlfast.data.buffer.base import ReplayBuffer
from rlfast.data.buffer.hindsight import HERReplayBuffer
from rlfast.data.buffer.options.config import Config
from rlfast.data.buffer.options.samplers import Prioritized
from rlfast.data.buffer.prioritized import PrioritizedReplayBuffer
from rlfast.data.buffer.store.store import Added, Index
from rlfast.utils.arguments.checks import check_copyable
from rlfast.utils.runtime.seeding import draw_seed


class ReplayBufferManager(ReplayBuffer):
    """Several buffers in one contiguous storage. Row ``i`` of buffer ``k`` has the index ``offset[k] + i``.

    ``manager.buffers[k]`` can still be used by itself; it shares its rows with the manager.

    :param buffer_list: empty buffers of the same class and options; their sizes may differ.
    :param seed: seed of the random streams; None draws one from ``np.random``.
    :param storage: where rows are: see :class:`ReplayBuffer`.
    :raises AssertionError: if there are no buffers, one has rows, or their classes or options differ.
    """

    buffers: NDArray[np.object_]
    _none_is_all = True
    _is_manager = True

    def __init__(
        self, buffer_list: AbstractSequence[ReplayBuffer], *, seed: int | None = None, storage: str = "ram"
    ) -> None:
        assert len(buffer_list) > 0, "a manager needs at least one buffer"
        first = buffer_list[0]
        for buffer in buffer_list:
            assert not buffer._store.names(), "a buffer with rows cannot come under a manager: its storage would move"
            assert isinstance(buffer, type(first)), (
                f"all buffers must be {type(first).__name__}, got {type(buffer).__name__}"
            )
            assert buffer.options == first.options, (
                f"all buffers must have the same options: {buffer.options} {first.options}"
            )
        self._setup(
            [buffer.maxsize for buffer in buffer_list], first._config, draw_seed(seed), storage, list(buffer_list)
        )

    def _setup(
        self, capacities: list[int], config: Config, seed: int, storage: str, buffers: AbstractSequence[Any] = ()
    ) -> None:
        super()._setup(capacities, config, seed, storage)
        self._adopt(buffers)

    def _adopt(self, buffers: AbstractSequence[Any]) -> None:
        self._attach(self._store, None)
        self.buffer_num = len(buffers)
        self.buffers = np.empty(len(buffers), object)
        for ring, buffer in enumerate(buffers):
            buffer._attach(self._store, ring)
            buffer.options = buffer._options()
            self.buffers[ring] = buffer
        self._offset = np.array(self._core.offsets, np.int64)
        self._extend_offset = np.append(self._offset, self._core.total)
        self._all_rings = np.arange(self.buffer_num)

    @staticmethod
    def _child_class(config: Config) -> type[ReplayBuffer]:
        """Returns the class of a manager's buffers for files that do not name it."""
        if config.relabel is not None:
            return HERReplayBuffer
        return PrioritizedReplayBuffer if isinstance(config.sampler, Prioritized) else ReplayBuffer

    @property
    def subbuffer_edges(self) -> NDArray[np.int64]:
        """The first row of each ring, and the end of the last ring."""
        return np.array(self._extend_offset)

    @property
    def _lengths(self) -> Index:
        return self._core.sizes()

    def add(self, batch: Batch | Mapping[str, Any], buffer_ids: NDArray[Any] | list[int] | None = None) -> Added:
        """Appends one row to each of several buffers.

        :param batch: rows as for :meth:`ReplayBuffer.add`, with a leading axis of length ``len(buffer_ids)``.
        :param buffer_ids: the number of the buffer of each row, where -1 is the last buffer; default all, in order.
        :return: ``(index, episode_return, episode_length, episode_start)``, with one element for each row.
        :raises IndexError: if there is no such buffer.
        :raises TypeError: if ids are not integers; see also :meth:`ReplayBuffer.add`.
        """
        return self._add(batch, self._all_rings if buffer_ids is None else buffer_ids)

    def _rings_of(self, buffer_ids: NDArray[Any] | list[int] | None) -> list[int]:
        if isinstance(buffer_ids, np.ndarray):
            check_copyable(buffer_ids)
        rings = []
        for ring in self._all_rings if buffer_ids is None else buffer_ids:
            if not 0 <= int(ring) < self.buffer_num:
                raise IndexError(f"buffer id {ring} is out of range: there are {self.buffer_num} buffers")
            rings.append(int(ring))
        return rings

    def append(self, **row: Any) -> int:
        """Not supported: use ``manager.buffers[k].append`` or :meth:`add`.

        :raises NotImplementedError: always.
        """
        raise NotImplementedError("append to one of manager.buffers, or add a batch of rows")

    def update(self, buffer: ReplayBuffer) -> Index:
        """Not supported: update one of the buffers.

        :raises NotImplementedError: always.
        """
        raise NotImplementedError


class PrioritizedReplayBufferManager(PrioritizedReplayBuffer, ReplayBufferManager):
    """Several prioritized buffers in one storage, with one sum tree.

    :param buffer_list: empty prioritized buffers of the same options.
    :param kwargs: see :class:`ReplayBufferManager`.
    """

    def __init__(self, buffer_list: AbstractSequence[PrioritizedReplayBuffer], **kwargs: Any) -> None:
        ReplayBufferManager.__init__(self, buffer_list, **kwargs)


class HERReplayBufferManager(ReplayBufferManager):
    """Several hindsight buffers in one storage.

    :param buffer_list: empty hindsight buffers of the same options.
    :param seed: see :class:`ReplayBufferManager`, as is ``storage``.
    """
