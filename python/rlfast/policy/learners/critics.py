"""Critics of actions, separate or as one ensemble, their target networks and their regression."""

from collections.abc import Callable
from copy import deepcopy
from functools import reduce
from operator import add
from typing import Any, ClassVar

import torch
from torch import nn
from torch.func import functional_call

from rlfast.data import to_torch_as
from rlfast.functional.losses import squared_loss
from rlfast.policy.components.lagged_networks import LaggedNetworks
from rlfast.policy.components.memory.sequences import critic_output
from rlfast.policy.components.network_checks import check_networks
from rlfast.policy.components.overrides import Replaceable, replaceable
from rlfast.policy.learners.replay_learner import Sample
from rlfast.utils.net.ensemble import ensemble_size_of, members_of
from rlfast.utils.optim import OptimizerFactory, clone_optimizer, descend, make_optimizer


@replaceable("_mse_optimizer")
class Critics(Replaceable, LaggedNetworks):
    """A policy's critics, each an attribute of it, such as ``critic``, with its optimizer, ``critic_optim``, and its
    target network, ``critic_old``. Each returns ``[B, 1]``; or one returns ``[m, B, 1]``, an ensemble of m critics that
    are computed, optimized and moved as one.
    """

    critic_names: ClassVar[tuple[str, ...]] = ("critic",)
    """Names of the attributes that are critics."""
    lagged_names: ClassVar[tuple[str, ...]] = ("critic",)
    """Names of the networks that have a target network."""
    lagged_suffix: ClassVar[str] = "_old"
    """The end of the names of target networks."""
    tau: float
    """Size of the steps of target networks towards the trained ones, in [0, 1]."""
    critic_old: nn.Module
    critic2_old: nn.Module

    def add_critics(
        self,
        critic: nn.Module,
        critic_optim: torch.optim.Optimizer | OptimizerFactory | None,
        critic2: nn.Module | None = None,
        critic2_optim: torch.optim.Optimizer | OptimizerFactory | None = None,
    ) -> None:
        """Set one critic, or two if :attr:`critic_names` has two names, and make optimizers and target networks.

        :param critic: called as ``critic(obs, act)``; returns values ``[B, 1]``.
        :param critic_optim: an optimizer of ``critic``, a factory, or None for a policy that only acts.
        :param critic2: the second critic; None for a copy of the first with new parameters.
        :param critic2_optim: an optimizer of ``critic2``; None for one like that of the first.
        :raises ValueError: if there is an optimizer for ``critic2``, but no ``critic2``; or ``critic`` is
            an ensemble.
        """
        check_networks(critic=critic, critic2=critic if critic2 is None else critic2)
        if ensemble_size_of(critic) is not None:
            raise ValueError(
                f"{type(self).__name__} takes critics that give [B, 1], got an ensemble of {ensemble_size_of(critic)}; "
                "REDQPolicy takes ensembles"
            )
        if critic2 is None and isinstance(critic2_optim, torch.optim.Optimizer):
            raise ValueError(
                "critic2_optim holds no parameters of the critic2 that is made here: give both, or neither"
            )
        self.critic = critic
        if "critic2" in self.critic_names:
            self.critic2 = reinitialized(critic) if critic2 is None else critic2
        self.critic_optim = make_optimizer(critic_optim, critic.parameters())
        self._add_lagged("critic")
        if "critic2" in self.critic_names:
            if critic2_optim is None and self.critic_optim is not None:
                critic2_optim = clone_optimizer(self.critic_optim, self.critic2.parameters())
            self.critic2_optim = make_optimizer(critic2_optim, self.critic2.parameters())
            self._add_lagged("critic2")

    def add_ensemble(
        self,
        critic: nn.Module,
        critic_optim: torch.optim.Optimizer | OptimizerFactory | None,
        size: int | None = None,
    ) -> None:
        """Set an ensemble of critics, and make its optimizer and, if ``critic`` is in :attr:`lagged_names`, its target.

        :param critic: called as ``critic(obs, act)``; returns ``[m, B, 1]``, or ``[m, B, N]`` for N values.
        :param critic_optim: an optimizer of ``critic``, a factory, or None for a policy that only acts.
        :param size: the required number of members; None for any number.
        :raises ValueError: if the number of members is not ``size``.
        """
        check_networks(critic=critic)
        found = ensemble_size_of(critic)
        if size is not None and found not in (size, None):
            raise ValueError(f"ensemble_size is {size}, but critic is an ensemble of {found}: give both the same size")
        self.critic = critic
        self.critic_optim = make_optimizer(critic_optim, critic.parameters())
        if "critic" in self.lagged_names:
            self._add_lagged("critic")

    def _add_lagged(self, name: str) -> None:
        """Make the target network of a network."""
        setattr(self, name + self.lagged_suffix, self.lagged_copy(getattr(self, name)))

    @property
    def critics(self) -> list[nn.Module]:
        """The trained critics."""
        return [getattr(self, name) for name in self.critic_names]

    def critic_values(self, obs: Any, act: torch.Tensor, *, old: bool = False) -> list[torch.Tensor]:
        """Return the values of actions by each critic.

        :param obs: observations.
        :param act: actions, ``[B, ...]``.
        :param old: whether to use the target networks.
        :return: one tensor ``[B]`` for each critic.
        """
        end = self.lagged_suffix if old else ""
        return [critic_output(getattr(self, name + end), obs, act).flatten() for name in self.critic_names]

    def ensemble_values(
        self, obs: Any, act: torch.Tensor, *, old: bool = False, members: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return the values of actions by the members of an ensemble, ``[m, B]``, or ``[m, B, N]`` of N values each.

        :param obs: observations.
        :param act: actions, ``[B, ...]``.
        :param old: whether to use the target network.
        :param members: indices of the members to compute, ``[k]``; the others take no time. None for all.
        :raises ValueError: if the critic is not an ensemble.
        """
        critic = self.critic_old if old else self.critic
        chosen = {} if members is None else members_of(critic, members)
        values: torch.Tensor = functional_call(critic, chosen, (obs, act)) if chosen else critic(obs, act)
        if values.dim() != 3:
            raise ValueError(
                f"critic must give [ensemble_size, {len(act)}, 1], got {[*values.shape]}: make it of EnsembleLinear, "
                "with flatten_input=False"
            )
        if members is not None and not chosen:  # an ensemble of the user's own layers
            values = values[members]
        return values.squeeze(2)

    def regress(self, sample: Sample) -> tuple[list[torch.Tensor], torch.Tensor]:
        """Do a gradient step for each critic towards the returns.

        :param sample: the sample.
        :return: the losses before the steps, and the mean of the critics' errors, returns minus values, ``[B]``. An
            ensemble has one loss, the mean of its members'.
        """
        pairs = [(getattr(self, name), getattr(self, f"{name}_optim")) for name in self.critic_names]
        if not torch.compiler.is_compiling() and self.is_replaced("_mse_optimizer"):
            errors, losses = zip(*(self._mse_optimizer(sample.batch, *pair) for pair in pairs), strict=True)
            return [loss.detach() for loss in losses], -_mean(errors, len(sample.act)).detach()
        steps = ((self.value_of(critic, sample.obs, sample.act), optim) for critic, optim in pairs)
        errors, losses = zip(*(_step(sample, *step) for step in steps), strict=True)
        return [*losses], _mean(errors, len(sample.act)).detach()

    def critic_step(self, sample: Sample) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        """Do a gradient step for each critic, by default towards the returns.

        :param sample: the sample.
        :return: the losses before the steps by their names, ``critic_loss``, or ``critic1_loss`` and ``critic2_loss``;
            and the errors, ``[B]``.
        """
        losses, error_B = self.regress(sample)
        names = ["critic_loss"] if len(losses) == 1 else [f"critic{i}_loss" for i in range(1, len(losses) + 1)]
        return dict(zip(names, losses, strict=True)), error_B

    def value_of(self, critic: nn.Module, obs: Any, act: torch.Tensor) -> torch.Tensor:
        """Return the values of actions by a critic, ``[B]``, or ``[m, B]`` of an ensemble.

        :param critic: the critic.
        :param obs: observations.
        :param act: actions, ``[B, ...]``.
        """
        return _flat(critic_output(critic, obs, act))

    @staticmethod
    def _mse_optimizer(
        batch: Any, critic: nn.Module, optimizer: torch.optim.Optimizer
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Do one gradient step for a critic; the method that subclasses override.

        :return: the errors, value minus return, ``[B]`` or ``[m, B]``, and the loss before the step.
        """
        value = _flat(critic(batch.obs, batch.act))
        error = value - to_torch_as(batch.returns, value).flatten()
        weight = to_torch_as(batch.weight, value) if "weight" in batch else None
        loss = squared_loss(error, weight)
        descend(loss, optimizer)
        return error, loss

    def sync_weight(self) -> None:
        """Move the target networks a step towards the trained ones."""
        for name in self.lagged_names:
            self.soft_update(getattr(self, name + self.lagged_suffix), getattr(self, name), self.tau)


def _step(sample: Sample, value: torch.Tensor, optim: Any) -> tuple[torch.Tensor, torch.Tensor]:
    error = sample.returns - value
    loss = squared_loss(error, sample.weight)
    descend(loss, optim)
    return error, loss.detach()


def _flat(values: torch.Tensor) -> torch.Tensor:
    """Return values ``[B, 1]`` as ``[B]``, and those of an ensemble as ``[m, B]``."""
    return values.flatten() if values.dim() < 3 else values.flatten(1)


def _mean(errors: tuple[torch.Tensor, ...], rows: int) -> torch.Tensor:
    """Return the mean of several critics' errors, ``[B]``, from a tuple of ``[B]`` or one ``[m, B]``."""
    error = errors[0] if len(errors) == 1 else reduce(add, errors) / len(errors)
    return error.mean(dim=0) if error.dim() == 2 and error.shape[1] == rows else error.flatten()


def reinitialized(network: nn.Module) -> nn.Module:
    """Return a network of the same structure with new parameters, as critics that begin equal would stay equal.

    :param network: the network.
    :return: a copy whose layers were initialised again.

    >>> one = nn.Linear(2, 2)
    >>> torch.equal(reinitialized(one).weight, one.weight)
    False
    """
    other = deepcopy(network)
    for layer in other.modules():
        reset: Callable[[], None] | Any = getattr(layer, "reset_parameters", None)
        if callable(reset):
            reset()
    return other
