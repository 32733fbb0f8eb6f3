"""A whole replay buffer under TorchRL's names."""

from __future__ import annotations

from typing import Any

from tensordict import TensorDict
from torchrl.data import RandomSampler
from torchrl.data import TensorDictReplayBuffer as Host

from rlfast.interop.torchrl._sampler import PrioritizedSampler
from rlfast.interop.torchrl._storage import Storage


class TensorDictReplayBuffer(Host):  # type: ignore[misc]
    """TorchRL's ``TensorDictReplayBuffer`` over :class:`Storage`, uniform or with priorities.

    Collectors, losses, trainers and transforms use it as TorchRL's own.

    :param max_size: rows at most.
    :param alpha: how much priorities count; None samples uniformly.
    :param beta: how much of the bias the weights take back; needs ``alpha``.
    :param eps: added to every priority.
    :param priority_key: where ``update_tensordict_priority`` finds the TD errors.
    :param storage: ``"ram"``, or a folder for memory-mapped files.
    :param kwargs: as TorchRL's: ``batch_size``, ``transform``, ``prefetch``, ``pin_memory``, ...
    :raises ValueError: one of ``alpha`` and ``beta`` without the other.
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

    def sample(
        self, batch_size: int | None = None, return_info: bool = False, include_info: bool | None = None
    ) -> TensorDict | tuple[TensorDict, dict[str, Any]]:
        """Draws rows.

        :param batch_size: default that of the constructor.
        :param return_info: also give the rows' indices and weights as a dict.
        :return: the rows, with ``"index"`` and, when prioritized, ``"priority_weight"`` among them.
        """
        size = self._batch_size if batch_size is None else batch_size
        if size != self._batch_size or not self._is_plain() or return_info or include_info is not None:
            return super().sample(batch_size, return_info, include_info)
        with self._replay_lock, self._write_lock:
            index, info = self._sampler.sample(self._storage, size)
            return self._storage.get(index, **info, index=index)

    def _is_plain(self) -> bool:
        """Whether a sample is nothing but what sampler and storage give."""
        made = self.initialized and not (self._prefetch or self._service_shutdown or self._sample_unit)
        own = isinstance(self._storage, Storage) and type(self._sampler) in (PrioritizedSampler, RandomSampler)
        unchanged = made and not (len(self._transform) or self._pin_memory or self._writer.tracks_generations)
        return bool(unchanged and own and self._sample_dependency is None)

    def update_tensordict_priority(self, data: Any) -> None:
        """Takes the rows' priorities from ``priority_key``, as TorchRL's own."""
        priority = data.get(self.priority_key, None)
        simple = priority is not None and self._is_plain() and data.ndim == 1 and priority.numel() == len(data)
        if not simple or not isinstance(self._sampler, PrioritizedSampler):
            super().update_tensordict_priority(data)
            return
        with self._replay_lock, self._write_lock:
            self._sampler.update_priority(data.get("index"), priority.reshape(-1))
