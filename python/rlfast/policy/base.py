import re
import time
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, TypeVar

import gymnasium as gym
import numpy as np
import torch
from torch import nn

from rlfast.data import to_numpy
from rlfast.policy.acting import ActingPolicy
from rlfast.policy.components import training_state
from rlfast.policy.components.compiled_update import CompiledUpdate, check_compilable
from rlfast.policy.components.lagged_networks import LaggedNetworks
from rlfast.policy.components.network_checks import check_losses, update_error
from rlfast.policy.components.returns import Index, ReturnEstimation, episode_mc_return_to_go
from rlfast.policy.components.training_state import records_initial_values
from rlfast.policy.stats import TrainingStats, TrainingStatsWrapper, as_stats
from rlfast.utils import MultipleLRSchedulers
from rlfast.utils.arguments.checks import ArgumentError
from rlfast.utils.lr_scheduler import check_scheduler
from rlfast.utils.runtime.native import NotNativeError
from rlfast.utils.warning import warn_user

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
LearnsFrom: TypeAlias = Literal["rollouts", "transitions"]
TLearningRateScheduler: TypeAlias = torch.optim.lr_scheduler.LRScheduler | MultipleLRSchedulers


class BasePolicy(ActingPolicy, LaggedNetworks, ReturnEstimation):
    """A policy that learns: :meth:`update` is sample, :meth:`process_fn`, :meth:`learn`, :meth:`post_process_fn`.

    Its ``state_dict`` holds everything that is needed to continue training: the weights of the networks and, under
    ``_extra_state``, the random streams, the state of every optimizer, schedule, normaliser, exploration noise and
    network in a list, and the numbers, arrays and tensors that have changed since the policy was made. These are found
    in attributes of the policy, of its submodules and of objects that it holds, and in lists and dicts of them. A
    ``state_dict`` with weights alone, such as one that Tianshou 1.0 wrote, can be loaded, too, with a warning.

    :param action_space: see :class:`ActingPolicy`, also for ``observation_space``, ``action_scaling`` and
        ``action_bound_method``.
    :param lr_scheduler: an object with a method ``step``, which is called after each update. Default: None.
    :raises ValueError: see :class:`ActingPolicy`.
    :raises TypeError: if ``lr_scheduler`` has no method ``step`` that can be called without arguments, as that of
        ``ReduceLROnPlateau`` cannot.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            cls.__init__ = records_initial_values(cls.__init__)  # type: ignore[method-assign]

    @records_initial_values
    def __init__(
        self,
        *,
        action_space: gym.Space[Any],
        observation_space: gym.Space[Any] | None = None,
        action_scaling: bool = False,
        action_bound_method: Literal["clip", "tanh"] | None = "clip",
        lr_scheduler: TLearningRateScheduler | None = None,
    ) -> None:
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

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; see :class:`ActingPolicy`.

        :raises TypeError: ``lr_scheduler`` cannot step without arguments.
        """
        if name == "lr_scheduler" and value is not None:
            check_scheduler(value)
        super().__setattr__(name, value)

    def __class_getitem__(cls, _: Any) -> type[Self]:
        """Return the class itself, for ``BasePolicy[MyStats]`` in scripts for Tianshou 1.0."""
        return cls

    def set_agent_id(self, agent_id: int) -> None:
        """Set the number of this agent, where several agents learn in one environment.

        :param agent_id: the number.
        """
        self.agent_id = agent_id

    # -- one update ----------------------------------------------------------------------------------------------------

    @property
    def learns_from(self) -> LearnsFrom | None:
        """What an update learns from: ``"rollouts"`` that are then discarded, ``"transitions"`` that are sampled, or
        None for either. Trainers refuse a policy that learns from the other.
        """
        return None

    def process_buffer(self, buffer: "ReplayBuffer") -> "ReplayBuffer":
        """Prepare a buffer once, before offline training from it begins. This one changes nothing.

        :param buffer: the buffer with the data.
        :return: the buffer to sample from.
        """
        return buffer

    def process_fn(
        self,
        batch: "RolloutBatchProtocol",
        buffer: "ReplayBuffer",  # noqa: ARG002 (for algorithms that read other rows)
        indices: Index,  # noqa: ARG002
    ) -> "RolloutBatchProtocol":
        """Add to a sample what :meth:`learn` needs, such as returns. This one adds nothing.

        :param batch: a sample of B rows.
        :param buffer: the buffer that it was drawn from.
        :param indices: indices of the rows in the buffer, ``[B]``.
        :return: the sample for :meth:`learn`.
        """
        return batch

    @abstractmethod
    def learn(self, batch: "RolloutBatchProtocol", *args: Any, **kwargs: Any) -> TrainingStats:
        """Train the networks on a processed sample.

        It may set ``batch.td_error``, ``[B]``, whose absolute values become the priorities of the rows in a prioritized
        buffer. (As in Tianshou 1.0, it may replace ``batch.weight`` instead.)

        :param batch: the result of :meth:`process_fn`; a sample of a prioritized buffer has ``weight``, ``[B]``.
        :param args: further arguments of an algorithm.
        :param kwargs: further arguments of an algorithm.
        :return: the losses.
        """

    def post_process_fn(self, batch: "RolloutBatchProtocol", buffer: "ReplayBuffer", indices: Index) -> None:
        """Update the priorities of the rows in a prioritized buffer, which is one with a method ``update_weight``.

        :param batch: the sample after :meth:`learn`. Without ``td_error`` or a new ``weight``, priorities stay as they
            are, with a warning.
        :param buffer: the buffer that it was drawn from.
        :param indices: indices of the rows in the buffer, ``[B]``; the buffer ignores rows that were overwritten since.
        """
        if not hasattr(buffer, "update_weight"):
            return
        error = batch.get("td_error")
        if error is None:
            error = self._replaced_weight(batch, buffer, indices)
        if error is None:
            warn_user(
                f"the buffer is prioritized, but {type(self).__name__}.learn sets no batch.td_error: priorities stay"
            )
            return
        buffer.update_weight(indices, error)

    def _replaced_weight(self, batch: Any, buffer: "ReplayBuffer", indices: Index) -> Any:
        """Return the ``weight`` that ``learn`` has set; None if the sample still has its importance weights."""
        weight = batch.get("weight")
        if weight is None or weight is self._sampled_weight:
            return None
        before = np.asarray(buffer[indices].weight)
        now = to_numpy(weight)
        return None if now.shape == before.shape and np.allclose(now, before, rtol=1e-5, atol=0) else weight

    def update(self, sample_size: int | None, buffer: "ReplayBuffer | None", **kwargs: Any) -> TrainingStats:
        """Learn from one sample: sample, process, learn, update priorities, step the learning-rate schedule.

        :param sample_size: number of rows to draw; 0 for all rows in order of time, None to draw as many rows as there
            are.
        :param buffer: the buffer to sample from; None to learn nothing.
        :param kwargs: passed to :meth:`learn`.
        :return: the statistics of ``learn``, with ``train_time`` and ``sample_time``.
        :raises ValueError: ``sample_size`` is negative; nothing is changed then.
        :raises ObservationError: the networks cannot take the observations.
        :raises NonFiniteError: a loss is infinite, or it is NaN and so are weights, or the sample has NaN that the
            networks do not take. The weights may have changed then.
        """
        if buffer is None:
            return TrainingStats()
        if sample_size is not None and sample_size < 0:
            raise ArgumentError(f"sample_size must not be negative, got {sample_size}; 0 is all rows")
        sample: Any
        start = time.perf_counter()
        sample, indices = buffer.sample(sample_size)
        sampled, gradients = time.perf_counter(), torch.is_grad_enabled()
        try:
            self.updating = True
            batch = self.process_fn(sample, buffer, indices)
            vars(self)["_sampled_weight"] = batch.get("weight")  # spares nn.Module's search among parameters
            stats: TrainingStats = as_stats(self.learn(batch, **kwargs), type(self).__name__)
            check_losses(self, stats, batch, buffer, indices)
            self.post_process_fn(batch, buffer, indices)
            if self.lr_scheduler is not None:
                self.lr_scheduler.step()
        except (RuntimeError, ValueError) as error:
            if (better := update_error(self, error, sample, buffer, indices)) is error:
                raise
            raise better from error
        except BaseException:
            torch.set_grad_enabled(gradients)  # Ctrl-C may have kept a torch.no_grad() from ending
            raise
        finally:
            self.updating = False
            vars(self)["_sampled_weight"] = None
        stats.train_time, stats.sample_time = time.perf_counter() - start, sampled - start
        return stats

    # -- state ---------------------------------------------------------------------------------------------------------

    def load_state_dict(self, state_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Restore the result of ``state_dict``, also of a policy whose networks were compiled where these are not, or
        the other way round; see ``torch.nn.Module.load_state_dict``.

        :param state_dict: weights and the rest by name. ``torch.compile`` adds ``_orig_mod.`` to the names of weights.
        """
        if any(_COMPILED in f"{name}." for name in (*state_dict, *dict(self.named_modules()))):
            own = {name.replace(_COMPILED, ""): name for name in self.state_dict()}
            named = {own.get(name.replace(_COMPILED, ""), name): value for name, value in state_dict.items()}
            state_dict = OrderedDict(named)
        return super().load_state_dict(state_dict, *args, **kwargs)

    def get_extra_state(self) -> dict[str, Any]:
        """Return the part of ``state_dict`` besides weights."""
        found = training_state.find(self)
        scheduler = getattr(self.lr_scheduler, "state_dict", None)
        return {
            "optimizers": {name: optim.state_dict() for name, optim in found.optimizers.items()},
            "lr_scheduler": None if scheduler is None else scheduler(),
            "random": self.random_state(),
            "torch_random": None if self._torch_rng is None else self._torch_rng.get_state(),
            "parts": {name: part.state_dict() for name, part in found.parts.items()},
            "values": training_state.values_of(self),
        }

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Restore the result of :meth:`get_extra_state`.

        A policy without optimizers, which only acts, leaves out optimizers, schedules and parts that it does not have.

        :param state: the result.
        :raises ValueError: if this policy has other optimizers, parts or schedules. Nothing is changed then.
        """
        found = training_state.find(self)
        if not found.optimizers:
            parts = {name: part for name, part in state["parts"].items() if name in found.parts}
            scheduler = state["lr_scheduler"] if hasattr(self.lr_scheduler, "state_dict") else None
            state = {**state, "optimizers": {}, "parts": parts, "lr_scheduler": scheduler}
        if found.optimizers.keys() != state["optimizers"].keys():
            raise ValueError(
                f"got the state of optimizers {[*state['optimizers']]}, this policy has {[*found.optimizers]}"
            )
        if hasattr(self.lr_scheduler, "state_dict") is (state["lr_scheduler"] is None):
            raise ValueError("lr_scheduler: either the policy or the saved state has one, but not both")
        if found.parts.keys() != state["parts"].keys():
            raise ValueError(f"got the state of {[*state['parts']]}, this policy has {[*found.parts]}")
        for name, optim in found.optimizers.items():
            optim.load_state_dict(deepcopy(state["optimizers"][name]))  # optimizers keep the tensors they are given
        if self.lr_scheduler is not None and state["lr_scheduler"] is not None:
            self.lr_scheduler.load_state_dict(deepcopy(state["lr_scheduler"]))
        self.set_random_state(state["random"])
        self._torch_rng = None
        if state["torch_random"] is not None:
            self._torch_rng = torch.Generator()
            self._torch_rng.set_state(state["torch_random"].cpu())
        for name, part in found.parts.items():
            part.load_state_dict(state["parts"][name])
        training_state.set_values(self, state["values"])

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Self:
        """Move parameters to another device or dtype, and the states of optimizers with them."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for optim in training_state.find(self).optimizers.values():
            if optim.state:
                optim.load_state_dict(optim.state_dict())
        return self

    def compiled(self, update: Callable[..., Any], *networks: nn.Module) -> CompiledUpdate:
        """Return an update as one graph, for policies with ``compile=True``.

        :param update: a method that takes and returns tensors.
        :param networks: the networks that it uses.
        :return: a function like ``update``.
        :raises ValueError: for a recurrent network, an unknown optimizer, or a replaced method of the algorithm.
        """
        self.check_not_replaced()
        check_compilable(*networks)
        return CompiledUpdate(update, self._all_optimizers)

    def check_not_replaced(self) -> None:
        """Check that no method that a graph contains was replaced.

        :raises ValueError: if one was replaced, or the policy has hooks.
        """
        names = sorted(name for name in self._replaceable if not name.startswith("map_action"))
        if self._has_custom_forward(*names):
            raise ValueError(
                f"compile=True makes one graph of the algorithm's own methods, and {type(self).__name__} has replaced "
                f"one of {', '.join(names)}, or has hooks: leave compile at False"
            )

    def _has_custom_forward(self, *names: str) -> bool:
        """Return whether learning must call the policy itself, because ``forward`` was replaced or has hooks.

        :param names: names of other methods whose replacement counts, too.
        """
        own, kind, replaceable = self.__dict__, type(self), self._replaceable  # runs several times in an update
        return bool(
            "forward" in own
            or kind.forward is not replaceable["forward"]
            or kind.__call__ is not replaceable["__call__"]
            or self._forward_hooks
            or self._forward_pre_hooks
            or (names and self.is_replaced(*names))
        )

    def methods_that_choose(self, known: type, *others: str) -> tuple[str, ...]:
        """Return the names of the methods that choose actions, where a template's own do so and may be skipped.

        :param known: the template.
        :param others: names of methods beside ``__call__`` and ``forward``.
        :raises NotNativeError: one of them was replaced, or the policy has hooks.
        """
        own, kind, names = vars(self), type(self), ("__call__", "forward", *others)
        replaced = any(name in own or getattr(kind, name) is not getattr(known, name) for name in names)
        if replaced or self._has_custom_forward():
            raise NotNativeError(f"{kind.__name__} chooses actions by a method of its own, or has hooks")
        return names

    def _known_networks(self, *networks: nn.Module) -> bool:
        """Return whether networks consist of modules of this library and of torch, which take tensors and arrays
        alike.
        """
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


_COMPILED = "_orig_mod."
"""What ``torch.compile`` puts before the names of a module's weights."""
_STAYS = re.compile(r"(.+\.)?(_extra_state|temperature\.log_alpha|cql_log_alpha)")
_UNUSED = re.compile(r"(policy\.)*(_actor_critic\..+|actor_old\..+|tau_hat)")
"""Copies of other weights, and weights that nothing uses, in the files of Tianshou 1.0."""


def _accept_weights_alone(policy: nn.Module, incompatible: Any) -> None:
    missing, unexpected = incompatible.missing_keys, incompatible.unexpected_keys
    if not any(key.endswith("_extra_state") for key in missing):
        return
    missing[:] = [key for key in missing if not _STAYS.fullmatch(key)]
    unexpected[:] = [key for key in unexpected if not _UNUSED.fullmatch(key)]
    warn_user(
        f"only weights were loaded into {type(policy).__name__}: optimizers, schedulers, temperatures and random "
        "streams stay"
    )
