"""The two forms of actions: those that an environment takes, and those that policies give."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlfast.utils.runtime.extras import needed_by

with needed_by("rlfast.data.datasets"):
    import gymnasium as gym


def to_policy_form(act: object, space: gym.Space[Any]) -> Any:
    """Returns actions as policies give them: from -1 to 1, or counted from 0; those of a Box without finite bounds stay
    as they are.

    :param act: actions as the environment takes them. Integers of a Box become float32.
    :param space: space of these actions.
    """
    if isinstance(space, gym.spaces.Discrete):
        return np.asarray(act) - space.start
    if isinstance(space, gym.spaces.Box) and _has_bounds(space):
        width = np.maximum(space.high - space.low, np.finfo(np.float32).eps)
        return ((np.asarray(act) - space.low) * 2.0 / width - 1.0).astype(_real(act))
    return act


def to_environment_form(act: Any, space: gym.Space[Any]) -> Any:
    """Returns actions as the environment takes them, the inverse of :func:`to_policy_form`.

    :param act: actions as policies give them; those beyond -1 or 1 are cut off there, as policies do when they act.
    :param space: space of the environment's actions.
    """
    if isinstance(space, gym.spaces.Discrete):
        return np.asarray(act) + space.start
    if isinstance(space, gym.spaces.Box) and _has_bounds(space):
        share = (np.clip(act, -1.0, 1.0) + 1.0) / 2.0
        return (space.low + share * (space.high - space.low)).astype(_real(act))
    return act


def _has_bounds(space: gym.spaces.Box) -> bool:
    return bool(np.isfinite(space.low).all() and np.isfinite(space.high).all())


def _real(act: Any) -> np.dtype[Any]:
    """Returns the dtype of scaled actions, which are no integers."""
    return act.dtype if act.dtype.kind == "f" else np.dtype(np.float32)
