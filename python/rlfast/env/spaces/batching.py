"""The spaces of several environments: whether they are compatible, and the batched space in Gymnasium's protocol."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import gymnasium as gym
from gymnasium.spaces.utils import is_space_dtype_shape_equiv
from gymnasium.vector.utils import batch_differing_spaces

ARRAY_SPACES = (gym.spaces.Box, gym.spaces.Discrete, gym.spaces.MultiDiscrete, gym.spaces.MultiBinary)
"""Spaces whose elements are arrays or numbers of one shape. Elements of other spaces are stored as objects."""

Space: TypeAlias = "gym.Space[Any] | None"
"""A space; None for an environment that declares none, whose observations or actions may be any object."""
ObservationMode: TypeAlias = "str | tuple[gym.Space[Any], gym.Space[Any]]"
"""``"same"``, ``"different"``, or the batched space and the space of one environment, as in Gymnasium."""


def declared(attribute: Callable[[str], Any], name: str) -> Space:
    """Returns a space that an environment declares; None if it declares none.

    :param attribute: a function that returns an attribute of the environment by its name.
    :param name: the name of the attribute that holds the space.
    """
    try:
        space = attribute(name)
    except (AttributeError, NotImplementedError):
        return None
    return space if isinstance(space, gym.Space) else None


def common(spaces: Sequence[Space]) -> Space:
    """Returns the first space if the elements of all spaces have the same nesting, shapes and dtypes; otherwise None.

    >>> common([gym.spaces.Discrete(2), gym.spaces.Discrete(5)])
    Discrete(2)
    >>> common([gym.spaces.Box(0, 1, (2,)), gym.spaces.Box(0, 1, (3,))])
    """
    first = spaces[0]
    return first if first is not None and all(one is first or _alike(first, one) for one in spaces[1:]) else None


def _alike(one: Space, other: Space) -> bool:
    if isinstance(one, gym.spaces.Dict):
        return (
            isinstance(other, gym.spaces.Dict)
            and one.keys() == other.keys()
            and all(_alike(part, other[key]) for key, part in one.items())
        )
    if isinstance(one, gym.spaces.Tuple):
        return (
            isinstance(other, gym.spaces.Tuple)
            and len(one) == len(other)
            and all(map(_alike, one.spaces, other.spaces))
        )
    if isinstance(one, ARRAY_SPACES):
        return isinstance(other, ARRAY_SPACES) and (one.shape, one.dtype) == (other.shape, other.dtype)
    return other is not None and not isinstance(other, (*ARRAY_SPACES, gym.spaces.Dict, gym.spaces.Tuple))


def as_gymnasium(observations: Sequence[Space], actions: Sequence[Space], mode: ObservationMode) -> tuple[Space, Space]:
    """Determines the observation spaces of a vector environment in Gymnasium's protocol and checks the action spaces.

    :param observations: the observation space of each environment.
    :param actions: the action space of each environment.
    :param mode: which observation spaces may differ; see :data:`ObservationMode`.
    :return: the observation space of one environment, and the batched observation space. The latter is None if it is
        ``gymnasium.vector.utils.batch_space`` of the former.
    :raises RuntimeError: the spaces differ in a way that ``mode`` does not allow.
    :raises ValueError: the mode is unknown, or the spaces cannot be batched.
    :raises TypeError: the mode is a tuple of objects that are not spaces.
    """
    single, batched = observations[0], None
    if isinstance(mode, tuple) and len(mode) == 2:
        if not all(isinstance(space, gym.Space) for space in mode):
            raise TypeError(f"Expected both elements of observation_mode to be Spaces, got {mode}")
        batched, single = mode
    elif mode == "different":
        batched = batch_differing_spaces(observations)  # type: ignore[arg-type]
    elif mode != "same":
        raise ValueError(
            "Invalid `observation_mode`, expected: 'same' or 'different' or tuple of single and batch observation "
            f"space, actual got {mode!r}"
        )
    for i, (observation, action) in enumerate(zip(observations, actions, strict=True)):
        if mode == "same" and _differ(observation, single):
            raise RuntimeError(
                f"observation_mode='same', however the observation spaces are not equivalent: that of environment 0 is "
                f"{single} and that of environment {i} is {observation}. If this is intentional, use "
                "`observation_mode='different'` instead"
            )
        if mode != "same" and not _is_equivalent(observation, single):
            raise RuntimeError(
                f"observation_mode='different' or custom space, however the observation spaces do not share a common "
                f"shape and dtype: that of environment {i} is {observation}, and the single one {single}"
            )
        if _differ(action, actions[0]):
            raise RuntimeError(
                f"Some environments have an action space different from `{actions[0]}`: that of environment {i} is "
                f"{action}. In Gymnasium's protocol all must be equal; without an autoreset_mode, they "
                "need not be"
            )
    return single, batched


def _differ(one: Space, other: Space) -> bool:
    return one is not other and bool(one != other)


def _is_equivalent(one: Space, other: Space) -> bool:
    if one is None or other is None:
        return one is other
    try:
        return bool(is_space_dtype_shape_equiv(one, other))
    except NotImplementedError:  # a user-defined space
        return type(one) is type(other)
