"""The spaces of several environments: what they have in common, and what Gymnasium makes of them together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import gymnasium as gym
from gymnasium.spaces.utils import is_space_dtype_shape_equiv
from gymnasium.vector.utils import batch_differing_spaces

ARRAY_SPACES = (gym.spaces.Box, gym.spaces.Discrete, gym.spaces.MultiDiscrete, gym.spaces.MultiBinary)
"""Spaces whose elements are arrays or numbers of one shape; elements of others are kept as objects."""

Space: TypeAlias = "gym.Space[Any] | None"
"""None: the environment declares none, and its elements may be anything."""
ObservationMode: TypeAlias = "str | tuple[gym.Space[Any], gym.Space[Any]]"
"""As for Gymnasium's vector environments: ``"same"``, ``"different"``, or the batched and the single space."""


def declared(attribute: Callable[[str], Any], name: str) -> Space:
    """The space under ``name``, None where there is none.

    :param attribute: looks an attribute of the environment up.
    """
    try:
        space = attribute(name)
    except (AttributeError, NotImplementedError):
        return None
    return space if isinstance(space, gym.Space) else None


def common(spaces: Sequence[Space]) -> Space:
    """The first space if elements of all of them lie in arrays of the same shapes and dtypes; None if not.

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
    """The observation space of one environment in Gymnasium's protocol, and that of all, None if it is the usual one.

    :param observations: the space of each environment; likewise ``actions``.
    :raises RuntimeError: the spaces differ, as far as ``mode`` does not allow it.
    :raises ValueError: the mode is unknown, or the spaces cannot be batched.
    :raises TypeError: the mode is a tuple, but not of spaces.
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
                f"{action}. In Gymnasium's protocol all must be equal; in Tianshou's, without an autoreset_mode, they "
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
    except NotImplementedError:  # a space of the user's own
        return type(one) is type(other)
