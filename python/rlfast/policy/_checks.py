"""What constructors of policies refuse."""

import math
from typing import Any

import gymnasium as gym
from gymnasium.spaces import Discrete, MultiBinary, MultiDiscrete
from torch import nn

from rlfast.utils.checks import check_instance, check_number
from rlfast.utils.net.common import BaseActor


def check_gamma(name: str, gamma: float) -> None:
    """Refuse a discount outside [0, 1], NaN included.

    :raises TypeError: it is no number.
    :raises ValueError: it is another.
    """
    check_number(name, gamma)
    if not 0 <= gamma <= 1:
        raise ValueError(f"{name} must be in [0, 1], got {gamma}")


def check_networks(**networks: Any) -> None:
    """Refuse what is no module of torch.

    :raises TypeError: so it is.
    """
    for name, network in networks.items():
        check_instance(name, network, nn.Module)


def check_output(actor: nn.Module, action_space: gym.Space[Any]) -> None:
    """Refuse one of our actors whose output does not fit the actions; others may give what they like.

    :raises TypeError: ``action_space`` is no space.
    :raises ValueError: if it gives another number of numbers than the space has dimensions, or actions.
    """
    check_instance("action_space", action_space, gym.Space)
    if not isinstance(actor, BaseActor):
        return
    if isinstance(action_space, Discrete):
        wanted = int(action_space.n)
    elif isinstance(action_space, MultiDiscrete):
        wanted = int(action_space.nvec.sum())
    elif isinstance(action_space, MultiBinary):
        wanted = math.prod(action_space.shape)
    else:
        wanted = math.prod(action_space.shape or ())
    given = actor.get_output_dim()
    if given != wanted:
        raise ValueError(f"the actor gives {given} numbers, but {action_space} needs {wanted}")
