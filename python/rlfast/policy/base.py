import time
import warnings
from abc import abstractmethod
from collections.abc import Callable
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, TypeVar, cast

import gymnasium as gym
import numpy as np
import torch
from torch import nn

from rlfast.data import to_numpy
from rlfast.policy import _state
from rlfast.policy._compiled import CompiledUpdate, check_compilable
from rlfast.policy._returns import Index, ReturnEstimation, episode_mc_return_to_go
from rlfast.policy._state import noting
from rlfast.policy.acting import ActingPolicy
from rlfast.policy.lagged import LaggedNetworks
from rlfast.policy.stats import TrainingStats, TrainingStatsWrapper, as_stats
from rlfast.utils import MultipleLRSchedulers

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
    of every optimizer, schedule, normaliser, exploration noise and network in a list, the numbers, arrays and tensors
    that have changed since the policy was made, and the random streams; whether they are attributes of the policy, of
    its submodules or of objects it holds, or in lists and dicts of these. A file with weights alone loads too, with a
    warning.

    :param action_space: see :class:`ActingPolicy`, as for ``observation_space``, ``action_scaling`` and
        ``action_bound_method``.
    :param lr_scheduler: anything with a method ``step``, which is called after each update. Default: None.
    :raises ValueError: as :class:`ActingPolicy`.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            cls.__init__ = noting(cls.__init__)  # type: ignore[method-assign]

    @noting
    def __init__(
        self,
        *,
        action_space: gym.Space[Any],
        observation_space: gym.Space[Any] | None = None,
        action_scaling: bool = False,
        action_bound_method: Literal["clip", "tanh"] | None = "clip",
        lr_scheduler: TLearningRateScheduler | None = None,
    ) -> None:
        if lr_scheduler is not None and not callable(getattr(lr_scheduler, "step", None)):
            raise TypeError(f"lr_scheduler must have a method step, or be None, got {lr_scheduler!r}")
        super().__init__(
            action_space=action_space,
            observation_space=observation_space,
            action_scaling=action_scaling,
            action_bound_method=action_bound_method,
        )
        self.lr_scheduler = lr_scheduler
        self.agent_id = 0
        self.updating = False
        self._sampled_weight: Any = None  # while an update runs
        self._networks_seen: tuple[tuple[nn.Module, ...], bool] = ((), True)
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
        """Tell a prioritized buffer, one with a method ``update_weight``, the new priorities.

        :param batch: after :meth:`learn`, which has left ``td_error`` or replaced ``weight``; else priorities stay, and
            a warning says so.
        :param buffer: where it comes from.
        :param indices: as sampled; updates of rows overwritten since then are refused by the buffer.
        """
        if not hasattr(buffer, "update_weight"):
            return
        error = batch.get("td_error")
        if error is None:
            error = self._replaced_weight(batch, buffer, indices)
        if error is None:
            warnings.warn(
                f"the buffer is prioritized, but {type(self).__name__}.learn sets no batch.td_error: priorities stay",
                stacklevel=2,
            )
            return
        buffer.update_weight(indices, error)

    def _replaced_weight(self, batch: Any, buffer: "ReplayBuffer", indices: Index) -> Any:
        """Give what ``learn`` has put in the place of the importance weights; None if they are still there."""
        weight = batch.get("weight")
        if weight is None or weight is self._sampled_weight:
            return None
        before = np.asarray(buffer[indices].weight)
        now = to_numpy(weight)
        return None if now.shape == before.shape and np.allclose(now, before, rtol=1e-5, atol=0) else weight

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
            vars(self)["_sampled_weight"] = batch.get("weight")  # not looked for among parameters
            stats: TrainingStats = as_stats(self.learn(batch, **kwargs), type(self).__name__)
            self.post_process_fn(batch, buffer, indices)
            if self.lr_scheduler is not None:
                self.lr_scheduler.step()
        finally:
            self.updating = False
            vars(self)["_sampled_weight"] = None
        stats.train_time, stats.sample_time = time.perf_counter() - start, sampled - start
        return stats

    # -- state ---------------------------------------------------------------------------------------------------------

    def get_extra_state(self) -> dict[str, Any]:
        """Give what ``state_dict`` holds besides weights."""
        found = _state.find(self)
        scheduler = getattr(self.lr_scheduler, "state_dict", None)
        return {
            "optimizers": {name: optim.state_dict() for name, optim in found.optimizers.items()},
            "lr_scheduler": None if scheduler is None else scheduler(),
            "random": self.random_state(),
            "torch_random": None if self._torch_rng is None else self._torch_rng.get_state(),
            "parts": {name: part.state_dict() for name, part in found.parts.items()},
            "values": _state.values_of(self),
        }

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Take over what :meth:`get_extra_state` gave.

        :raises ValueError: if this policy has other optimizers or another scheduler; nothing is changed then.
        """
        found = _state.find(self)
        if found.optimizers.keys() != state["optimizers"].keys():
            raise ValueError(
                f"got the state of optimizers {[*state['optimizers']]}, this policy has {[*found.optimizers]}"
            )
        if hasattr(self.lr_scheduler, "state_dict") is (state["lr_scheduler"] is None):
            raise ValueError("lr_scheduler: either the policy or the saved state has one, but not both")
        if found.parts.keys() != state["parts"].keys():
            raise ValueError(f"got the state of {[*state['parts']]}, this policy has {[*found.parts]}")
        for name, optim in found.optimizers.items():
            optim.load_state_dict(deepcopy(state["optimizers"][name]))  # it keeps the tensors, which may be in use
        if self.lr_scheduler is not None and state["lr_scheduler"] is not None:
            self.lr_scheduler.load_state_dict(deepcopy(state["lr_scheduler"]))
        self.set_random_state(state["random"])
        self._torch_rng = None
        if state["torch_random"] is not None:
            self._torch_rng = torch.Generator()
            self._torch_rng.set_state(state["torch_random"].cpu())
        for name, part in found.parts.items():
            part.load_state_dict(state["parts"][name])
        _state.set_values(self, state["values"])

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Self:
        """Move to another device or dtype, as ``to`` asks, and the optimizers' states along with their parameters."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for optim in _state.find(self).optimizers.values():
            if optim.state:
                optim.load_state_dict(optim.state_dict())
        return self

    def compiled(self, update: Callable[..., Any], *networks: nn.Module) -> CompiledUpdate:
        """Make one graph of an update, for policies with ``compile=True``.

        :param update: a method that takes and gives tensors.
        :param networks: what it computes with.
        :raises ValueError: for a recurrent network, an unknown optimizer or a method of the algorithm that is replaced.
        """
        self.check_graph_is_stock()
        check_compilable(*networks)
        return CompiledUpdate(update, self._all_optimizers)

    def check_graph_is_stock(self) -> None:
        """Refuse to learn by a graph that was made without what has replaced methods of the policy.

        :raises ValueError: one is replaced, or there are hooks.
        """
        names = sorted(name for name in self._stock if not name.startswith("map_action"))
        if self._asks_itself(*names):
            raise ValueError(
                f"compile=True makes one graph of the algorithm's own methods, and {type(self).__name__} has replaced "
                f"one of {', '.join(names)}, or has hooks: leave compile at False"
            )

    def _asks_itself(self, *names: str) -> bool:
        """Whether learning must call the policy, because somebody listens to the calls or gives other answers.

        :param names: of methods that matter besides ``forward``.
        """
        own, kind, stock = self.__dict__, type(self), self._stock  # asked several times an update: spelled out
        return bool(
            "forward" in own
            or kind.forward is not stock["forward"]
            or kind.__call__ is not stock["__call__"]
            or self._forward_hooks
            or self._forward_pre_hooks
            or (names and self.is_replaced(*names))
        )

    def _known_networks(self, *networks: nn.Module) -> bool:
        """Whether networks are made of modules of this library and of torch, which take tensors as well as arrays."""
        if self._networks_seen[0] != networks:
            known = all(
                type(module).__module__.startswith(("rlfast.", "torch."))
                for network in networks
                for module in network.modules()
            )
            vars(self)["_networks_seen"] = (networks, known)
        return self._networks_seen[1]

    def _all_optimizers(self) -> list[torch.optim.Optimizer]:
        return [value for value in vars(self).values() if isinstance(value, torch.optim.Optimizer)]


def _accept_weights_alone(policy: nn.Module, incompatible: Any) -> None:
    if "_extra_state" in incompatible.missing_keys:
        incompatible.missing_keys.remove("_extra_state")
        warnings.warn(
            f"only weights were loaded into {type(policy).__name__}: optimizers, schedulers and random streams stay",
            stacklevel=4,
        )
