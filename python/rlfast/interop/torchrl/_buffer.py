"""A replay buffer with TorchRL's interface."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from tensordict import TensorDict
from torchrl.data import RandomSampler
from torchrl.data import TensorDictReplayBuffer as Host
from torchrl.data.replay_buffers.storages import _collate_id

from rlfast.interop.torchrl._convert import array_of
from rlfast.interop.torchrl._sampler import PrioritizedSampler
from rlfast.interop.torchrl._storage import Storage


class TensorDictReplayBuffer(Host):
    """TorchRL's ``TensorDictReplayBuffer`` on :class:`Storage`, with uniform or prioritized sampling.

    Collectors, losses, trainers and transforms of TorchRL work with it.

    :param max_size: the capacity in rows.
    :param alpha: the priority exponent; None for uniform sampling.
    :param beta: the exponent of the importance weights; needs ``alpha``.
    :param eps: added to every priority.
    :param priority_key: the entry from which ``update_tensordict_priority`` reads the TD errors.
    :param storage: ``"ram"``, or a folder for memory-mapped files.
    :param kwargs: further arguments of TorchRL's class: ``batch_size``, ``transform``, ``prefetch``, ...
    :ivar stale_updates: the number of priorities that were ignored because their rows had been overwritten.
    :raises ValueError: only one of ``alpha`` and ``beta`` is given.
    """

    def __init__(
        self,
        max_size: int,
        *,
        alpha: float | None = None,
        beta: float | None = None,
        eps: float = 1e-8,
        priority_key: str = "td_error",
        storage: str = "ram",
        **kwargs: Any,
    ) -> None:
        if (alpha is None) != (beta is None):
            raise ValueError(f"alpha and beta go together, got alpha={alpha}, beta={beta}")
        sampler = RandomSampler() if alpha is None else PrioritizedSampler(max_size, alpha, beta or 0.0, eps)
        super().__init__(
            storage=Storage(max_size, storage=storage), sampler=sampler, priority_key=priority_key, **kwargs
        )
        self.stale_updates = 0

    def sample(
        self, batch_size: int | None = None, return_info: bool = False, include_info: bool | None = None
    ) -> TensorDict | tuple[TensorDict, dict[str, Any]]:
        """Draws rows.

        :param batch_size: how many; None for the number that the constructor was given.
        :param return_info: whether a dict of indices and weights is returned too.
        :param include_info: as in TorchRL's class.
        :return: the rows, with the entry ``"index"`` and, if sampling is prioritized, ``"priority_weight"`` and
            ``"index_generation"``.
        """
        size = self._batch_size if batch_size is None else batch_size
        if size is None or size != self._batch_size or not self._is_plain() or return_info or include_info is not None:
            return super().sample(batch_size, return_info, include_info)
        with self._replay_lock, self._write_lock:
            if type(self._sampler) is PrioritizedSampler:
                rows, info = self._sampler.draw(self._storage, size)
                return self._storage.get(rows, **info, index=torch.from_numpy(rows))
            index, info = self._sampler.sample(self._storage, size)
            return self._storage.get(index, **info, index=index)

    def _is_plain(self) -> bool:
        """Whether samples come from the sampler and the storage only, without transforms or other features."""
        made = self.initialized and not (self._prefetch or self._service_shutdown or self._sample_unit)
        own = isinstance(self._storage, Storage) and type(self._sampler) in (PrioritizedSampler, RandomSampler)
        unchanged = made and not (len(self._transform) or self._pin_memory or self._writer.tracks_generations)
        unchanged = unchanged and self._collate_fn is _collate_id
        return bool(unchanged and own and self._sample_dependency is None)

    def update_tensordict_priority(self, data: TensorDict) -> None:
        """Sets the priorities of rows from the entry ``priority_key``, as TorchRL's class does.

        The entry ``"index_generation"`` identifies rows that were overwritten since they were drawn. Their priorities
        are ignored and counted in ``stale_updates``. Without that entry, no row is ignored.

        :param data: a sample with the entry ``priority_key``.
        """
        priority, index = data.get(self.priority_key, None), data.get("index", None)
        drawn = data.get("index_generation", None)
        flat = data.ndim == 1 and priority is not None and priority.numel() == len(data) and drawn is not None
        if not flat or type(self._sampler) is not PrioritizedSampler or not isinstance(self._storage, Storage):
            super().update_tensordict_priority(data)
            return
        rows, values = array_of(index), array_of(priority).reshape(-1)
        with self._replay_lock, self._write_lock:
            stale = array_of(drawn) != self._storage.generations(rows)
            if count := np.count_nonzero(stale):
                self.stale_updates += int(count)
                rows, values = rows[~stale], values[~stale]
            if self._sampler._max_priority_within_buffer:
                self._sampler.update_priority(torch.from_numpy(rows), torch.from_numpy(values))
            elif len(rows):
                self._sampler.set(rows, values)
