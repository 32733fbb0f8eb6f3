"""Critics of actions: the second one of a pair, and ensembles."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.func import functional_call

from rlfast.policy.components.memory.sequences import critic_output
from rlfast.policy.components.network_checks import check_networks
from rlfast.utils.net.ensemble import ensemble_size_of, members_of
from rlfast.utils.optim import OptionalOptimizer, clone_optimizer, descend, make_optimizer


def q_values(critic: nn.Module, obs: object, act: torch.Tensor) -> torch.Tensor:
    """Return the values of actions, ``[B]``.

    :param critic: called as ``critic(obs, act)``; returns ``[B, 1]``.
    :param obs: observations, or sequences of them.
    :param act: actions, ``[B, ...]``.
    """
    return critic_output(critic, obs, act).flatten()


def critic_step(
    critic: nn.Module, optim: object, sample: Any, returns_B: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Do one gradient step on the mean squared error of a critic, weighted in prioritized replay.

    :param critic: called as ``critic(obs, act)``; returns ``[B, 1]``.
    :param optim: its optimizer.
    :param sample: the transitions.
    :param returns_B: the targets.
    :return: the errors, value minus target, ``[B]``, and the loss before the step.
    """
    error_B = q_values(critic, sample.obs, sample.act) - returns_B
    critic_loss = (getattr(sample, "weight", 1.0) * error_B.square()).mean()
    descend(critic_loss, optim)
    return error_B.detach(), critic_loss.detach()


class TwinCritics(NamedTuple):
    """Two critics and their optimizers."""

    critic: nn.Module
    critic_optim: Any
    critic2: nn.Module
    critic2_optim: Any


def twin_critics(
    critic: nn.Module, critic_optim: OptionalOptimizer, critic2: nn.Module | None, critic2_optim: OptionalOptimizer
) -> TwinCritics:
    """Return two critics and their optimizers.

    :param critic: called as ``critic(obs, act)``; returns values ``[B, 1]``.
    :param critic_optim: an optimizer of ``critic``, a factory, or None for a policy that only acts.
    :param critic2: the second critic; None for a copy of the first with new parameters.
    :param critic2_optim: an optimizer of ``critic2``; None for one like that of the first.
    :raises ValueError: if there is an optimizer for ``critic2``, but no ``critic2``; or ``critic`` is an ensemble.
    """
    check_networks(critic=critic, critic2=critic if critic2 is None else critic2)
    check_single(critic)
    if critic2 is None and isinstance(critic2_optim, torch.optim.Optimizer):
        raise ValueError("critic2_optim holds no parameters of the critic2 that is made here: give both, or neither")
    second = reinitialized(critic) if critic2 is None else critic2
    optim = make_optimizer(critic_optim, critic.parameters())
    if critic2_optim is None and optim is not None:
        critic2_optim = clone_optimizer(optim, second.parameters())
    return TwinCritics(critic, optim, second, make_optimizer(critic2_optim, second.parameters()))


def check_single(critic: nn.Module) -> None:
    """Check that a critic is no ensemble.

    :param critic: the critic.
    :raises ValueError: it is one.
    """
    size = ensemble_size_of(critic)
    if size is not None:
        raise ValueError(f"the critic must give [B, 1], got an ensemble of {size}; REDQPolicy takes ensembles")


def check_ensemble(critic: nn.Module, size: int | None = None) -> None:
    """Check that a critic may be an ensemble.

    :param critic: called as ``critic(obs, act)``; returns ``[m, B, 1]``, or ``[m, B, N]`` for N values.
    :param size: the required number of members; None for any number.
    :raises ValueError: if the number of members is not ``size``.
    """
    check_networks(critic=critic)
    found = ensemble_size_of(critic)
    if size is not None and found not in (size, None):
        raise ValueError(f"ensemble_size is {size}, but critic is an ensemble of {found}: give both the same size")


def ensemble_values(
    critic: nn.Module, obs: object, act: torch.Tensor, members: torch.Tensor | None = None
) -> torch.Tensor:
    """Return the values of actions by the members of an ensemble, ``[m, B]``, or ``[m, B, N]`` of N values each.

    :param critic: the ensemble.
    :param obs: observations.
    :param act: actions, ``[B, ...]``.
    :param members: indices of the members to compute, ``[k]``; the others take no time. None for all.
    :raises ValueError: if the critic is not an ensemble.
    """
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
