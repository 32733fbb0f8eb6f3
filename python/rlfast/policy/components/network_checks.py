"""Checks of the arguments of policies."""

import math
from typing import Any

import gymnasium as gym
from gymnasium.spaces import Discrete, MultiDiscrete
from torch import nn

from rlfast.utils.arguments.checks import check_instance
from rlfast.utils.net.common import BaseActor
from rlfast.utils.warning import warn_user


def check_networks(**networks: Any) -> None:
    """Check that networks are modules of torch.

    :param networks: the arguments of a policy by their names.
    :raises TypeError: if one of them is not an ``nn.Module``.
    """
    for name, network in networks.items():
        check_instance(name, network, nn.Module)


def check_output(actor: nn.Module, action_space: gym.Space[Any]) -> None:
    """Warn if an actor of this library has an output size that does not fit the action space. Other actors are not
    checked.

    :param actor: the actor.
    :param action_space: the action space of one environment.
    :raises TypeError: if ``action_space`` is not a space.
    """
    check_instance("action_space", action_space, gym.Space)
    if not isinstance(actor, BaseActor):
        return
    if isinstance(action_space, Discrete):
        wanted = int(action_space.n)
    elif isinstance(action_space, MultiDiscrete):
        wanted = int(action_space.nvec.sum())
    else:
        wanted = math.prod(action_space.shape or ())
    given = actor.get_output_dim()
    if given != wanted:
        warn_user(
            f"the actor gives {given} numbers, but {action_space} needs {wanted}; the space of one of several "
            "environments is their single_action_space or action_space[0]"
        )
