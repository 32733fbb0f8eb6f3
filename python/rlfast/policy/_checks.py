"""What constructors of policies refuse."""

import math
import warnings
from typing import Any

import gymnasium as gym
from gymnasium.spaces import Discrete, MultiDiscrete
from torch import nn

from rlfast.utils.checks import check_instance
from rlfast.utils.net.common import BaseActor


def check_networks(**networks: Any) -> None:
    """Refuse what is no module of torch.

    :raises TypeError: so it is.
    """
    for name, network in networks.items():
        check_instance(name, network, nn.Module)


def check_output(actor: nn.Module, action_space: gym.Space[Any], *, stacklevel: int = 5) -> None:
    """Warn of one of our actors whose output does not fit the actions; others may give what they like.

    :param stacklevel: of the warning, from here to who made the policy.
    :raises TypeError: ``action_space`` is no space.
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
        warnings.warn(
            f"the actor gives {given} numbers, but {action_space} needs {wanted}; the space of one of several "
            "environments is their single_action_space or action_space[0]",
            stacklevel=stacklevel,
        )
