import time
import warnings
from abc import abstractmethod
from collections.abc import Callable
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, TypeVar, cast

import gymnasium as gym
import torch
from torch import nn

from rlfast.exploration import BaseNoise
from rlfast.policy._compiled import CompiledUpdate, check_compilable
from rlfast.policy._lagged import LaggedNetworks
from rlfast.policy._returns import Index, ReturnEstimation, episode_mc_return_to_go
from rlfast.policy.acting import ActingPolicy
from rlfast.policy.stats import TrainingStats, TrainingStatsWrapper, as_stats
from rlfast.utils import MultipleLRSchedulers, RunningMeanStd

if TYPE_CHECKING:
    from rlfast.data import ReplayBuffer
    from rlfast.data.types import RolloutBatchProtocol

__all__ = [
    "ActingPolicy",
    "BasePolicy",
    "Index",
    "TLearningRateScheduler",
    "TTrainingStats",
    "TrainingStats",
    "TrainingStatsWrapper",
    "episode_mc_return_to_go",
]

TTrainingStats = TypeVar("TTrainingStats", bound=TrainingStats)
TLearningRateScheduler: TypeAlias = torch.optim.lr_scheduler.LRScheduler | MultipleLRSchedulers


class BasePolicy(ActingPolicy, LaggedNetworks, ReturnEstimation):
    """A policy that learns: :meth:`update` is sample, :meth:`process_fn`, :meth:`learn`, :meth:`post_process_fn`.

    Its ``state_dict`` has all that training goes on from: the networks' weights, and under ``_extra_state`` the state
    of every optimizer, normaliser and exploration noise that is an attribute, of the learning rate scheduler and of the
    random stream. A file with weights alone loads too, with a warning.

    :param action_space: see :class:`ActingPolicy`, as for ``observation_space``, ``action_scaling`` and
        ``action_bound_method``.
    :param lr_scheduler: takes a step after each update. Default: None.
    :raises ValueError: as :class:`ActingPolicy`.
    """

    def __init__(
        self,
        *,
        action_space: gym.Space[Any],
        observation_space: gym.Space[Any] | None = None,
        action_scaling: bool = False,
        action_bound_method: Literal["clip", "tanh"] | None = "clip",
        lr_scheduler: TLearningRateScheduler | None = None,
    ) -> None:
        if lr_scheduler is not None and not isinstance(lr_scheduler, TLearningRateScheduler):
            raise TypeError(f"lr_scheduler must be one of torch's, MultipleLRSchedulers or None, got {lr_scheduler!r}")
        super().__init__(
            action_space=action_space,
            observation_space=observation_space,
            action_scaling=action_scaling,
            action_bound_method=action_bound_method,
        )
        self.lr_scheduler = lr_scheduler
        self.agent_id = 0
        self.updating = False
        self.register_load_state_dict_post_hook(_accept_weights_alone)  # type: ignore[no-untyped-call]

    def __class_getitem__(cls, _: Any) -> type[Self]:
        """Accept ``BasePolicy[MyStats]``, as scripts for Tianshou 1.0 spell it."""
        return cls

    def set_agent_id(self, agent_id: int) -> None:
        """Say which agent this is, where several learn in one environment."""
        self.agent_id = agent_id

    # -- one update ----------------------------------------------------------------------------------------------------

    def process_buffer(self, buffer: "ReplayBuffer") -> "ReplayBuffer":
        """Prepare a whole buffer, once, before training from it begins; nothing here.

        :param buffer: what offline training will sample from.
        :return: the buffer to sample from.
        """
        return buffer

    def process_fn(
        self,
        batch: "RolloutBatchProtocol",
        buffer: "ReplayBuffer",  # noqa: ARG002 (for algorithms that look around in it)
        indices: Index,  # noqa: ARG002
    ) -> "RolloutBatchProtocol":
        """Add to a sample what learning needs, such as returns; nothing here.

        :param batch: the sample, of B rows.
        :param buffer: where it comes from.
        :param indices: the rows' places there, ``[B]``.
        """
        return batch

    @abstractmethod
    def learn(self, batch: "RolloutBatchProtocol", *args: Any, **kwargs: Any) -> TrainingStats:
        """Improve the networks by a processed sample.

        The absolute values of what it leaves as ``batch.td_error``, ``[B]``, become the rows' priorities in a
        prioritized buffer. (A new ``batch.weight``, Tianshou 1.0's way, is understood as well.)

        :param batch: what :meth:`process_fn` gave; with ``weight``, ``[B]``, from a prioritized buffer.
        :return: the losses, read back from the device once.
        """

    def post_process_fn(self, batch: "RolloutBatchProtocol", buffer: "ReplayBuffer", indices: Index) -> None:
        """Tell a prioritized buffer the new priorities.

        :param batch: after :meth:`learn`. Nothing happens unless it has a ``weight``, which says that the buffer is
            prioritized.
        :param buffer: where it comes from.
        :param indices: as sampled; updates of rows overwritten since then are refused by the buffer.
        """
        if "weight" not in batch:
            return
        if "td_error" not in batch:
            warnings.warn(
                f"the buffer is prioritized, but {type(self).__name__}.learn sets no batch.td_error: priorities stay",
                stacklevel=2,
            )
            return
        buffer.update_weight(indices, batch.td_error)

    def update(self, sample_size: int | None, buffer: "ReplayBuffer | None", **kwargs: Any) -> TrainingStats:
        """Learn from one sample.

        :param sample_size: rows to draw; 0 for all rows in order of time, None for as many as there are, drawn at
            random.
        :param buffer: to sample from; None to learn nothing.
        :param kwargs: given on to :meth:`learn`.
        :return: what ``learn`` gave, with ``train_time`` and ``sample_time``.
        """
        if buffer is None:
            return TrainingStats()
        start = time.perf_counter()
        sample, indices = buffer.sample(sample_size)
        sampled = time.perf_counter()
        self.updating = True
        try:
            batch = self.process_fn(cast("RolloutBatchProtocol", sample), buffer, indices)
            weight = batch.get("weight")
            stats: TrainingStats = as_stats(self.learn(batch, **kwargs), type(self).__name__)
            if "td_error" not in batch and batch.get("weight") is not weight:
                batch.td_error = batch.weight
            self.post_process_fn(batch, buffer, indices)
            if self.lr_scheduler is not None:
                self.lr_scheduler.step()
        finally:
            self.updating = False
        stats.train_time, stats.sample_time = time.perf_counter() - start, sampled - start
        return stats

    # -- state ---------------------------------------------------------------------------------------------------------

    def get_extra_state(self) -> dict[str, Any]:
        """Give what ``state_dict`` holds besides weights."""
        return {
            "optimizers": {name: optim.state_dict() for name, optim in self._optimizers().items()},
            "lr_scheduler": None if self.lr_scheduler is None else self.lr_scheduler.state_dict(),
            "random": self.random_state(),
            "parts": {name: part.state_dict() for name, part in self._stateful().items()},
        }

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Take over what :meth:`get_extra_state` gave.

        :raises ValueError: if this policy has other optimizers or another scheduler; nothing is changed then.
        """
        optimizers, parts = self._optimizers(), self._stateful()
        if optimizers.keys() != state["optimizers"].keys():
            raise ValueError(f"got the state of optimizers {[*state['optimizers']]}, this policy has {[*optimizers]}")
        if (self.lr_scheduler is None) != (state["lr_scheduler"] is None):
            raise ValueError("lr_scheduler: either the policy or the saved state has one, but not both")
        if parts.keys() != state["parts"].keys():
            raise ValueError(f"got the state of {[*state['parts']]}, this policy has {[*parts]}")
        for name, optim in optimizers.items():
            optim.load_state_dict(deepcopy(state["optimizers"][name]))  # it keeps the tensors, which may be in use
        if self.lr_scheduler is not None:
            self.lr_scheduler.load_state_dict(deepcopy(state["lr_scheduler"]))
        self.set_random_state(state["random"])
        for name, part in parts.items():
            part.load_state_dict(state["parts"][name])

    def compiled(self, update: Callable[..., Any], *networks: nn.Module) -> CompiledUpdate:
        """Make one graph of an update, for policies with ``compile=True``.

        :param update: a method that takes and gives tensors.
        :param networks: what it computes with.
        :raises ValueError: for a recurrent network or an unknown optimizer.
        """
        check_compilable(*networks)
        return CompiledUpdate(update, self._all_optimizers)

    def _all_optimizers(self) -> list[torch.optim.Optimizer]:
        return [*self._optimizers().values()]

    def _optimizers(self) -> dict[str, torch.optim.Optimizer]:
        return {name: value for name, value in vars(self).items() if isinstance(value, torch.optim.Optimizer)}

    def _stateful(self) -> dict[str, BaseNoise | RunningMeanStd]:
        """Exploration noise and normalisers."""
        return {name: value for name, value in vars(self).items() if isinstance(value, BaseNoise | RunningMeanStd)}


def _accept_weights_alone(policy: nn.Module, incompatible: Any) -> None:
    if "_extra_state" in incompatible.missing_keys:
        incompatible.missing_keys.remove("_extra_state")
        warnings.warn(
            f"only weights were loaded into {type(policy).__name__}: optimizers, schedulers and random streams stay",
            stacklevel=4,
        )
