"""Wrappers around single environments."""

from __future__ import annotations

import math
from itertools import islice, repeat
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rlfast.env.spaces.actions import at_shares
from rlfast.utils.arguments.checks import ArgumentError


class ContinuousToDiscrete(gym.ActionWrapper[Any, Any, Any]):
    """Turns a ``Box`` action space into a ``MultiDiscrete`` one, with evenly spaced values along each dimension.

    :param env: an environment with a bounded ``Box`` action space of shape ``(A,)``.
    :param action_per_dim: the number of values, bounds included: an int for all dimensions, or a list with one int for
        each dimension.
    :raises ArgumentError: the action space is not a ``Box`` of shape ``(A,)``, a dimension has fewer than two values,
        or the length of the list is not ``A``.
    :raises ValueError: a bound is infinite.
    """

    def __init__(self, env: gym.Env[Any, Any], action_per_dim: int | list[int]) -> None:
        super().__init__(env)
        space = env.action_space
        if not isinstance(space, gym.spaces.Box) or len(space.shape) != 1:
            raise ArgumentError(f"ContinuousToDiscrete needs a Box action space of one axis, got {space}")
        given = (
            repeat(action_per_dim, space.shape[0]) if isinstance(action_per_dim, int | np.integer) else action_per_dim
        )
        counts = [*islice(given, space.shape[0] + 1)]
        if len(counts) != space.shape[0] or min(counts) < 2:
            raise ArgumentError(
                f"action_per_dim must be 2 or more for each of {space.shape[0]} dimensions, got {counts}"
            )
        if not space.is_bounded():
            raise ValueError(f"ContinuousToDiscrete needs finite bounds, got {space}")
        self.action_space = gym.spaces.MultiDiscrete(np.array(counts))
        shares = [np.linspace(0, 1, count)[:, None] for count in counts]
        self.mesh = [at_shares(space, share)[:, i] for i, share in enumerate(shares)]

    def action(self, act: object) -> NDArray[Any]:
        """Converts a discrete action into a continuous one.

        :param act: integers ``(..., A)``.
        :return: the continuous action ``(..., A)``, with the dtype of the ``Box``.
        """
        act = np.asarray(act)
        return np.stack([mesh[act[..., i]] for i, mesh in enumerate(self.mesh)], axis=-1)


class MultiDiscreteToDiscrete(gym.ActionWrapper[Any, Any, Any]):
    """Turns a ``MultiDiscrete`` action space into a ``Discrete`` one that numbers all combinations.

    The last dimension varies fastest.

    :param env: an environment with a ``MultiDiscrete`` action space of shape ``(A,)``.
    :raises ArgumentError: the action space is not ``MultiDiscrete`` of one axis, or has 2**63 combinations or more.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        space = env.action_space
        if not isinstance(space, gym.spaces.MultiDiscrete) or space.nvec.ndim != 1:
            raise ArgumentError(f"MultiDiscreteToDiscrete needs a MultiDiscrete action space of one axis, got {space}")
        count = math.prod(space.nvec.tolist())
        if count > np.iinfo(np.int64).max:
            raise ArgumentError(f"{count} combinations are too many to number, of {space}")
        self.nvec, self._start = space.nvec, space.start.astype(space.dtype)
        self.bases = np.cumprod([1, *self.nvec[:0:-1]])  # the strides of the dimensions, last dimension first
        self.action_space = gym.spaces.Discrete(count)

    def action(self, act: object) -> NDArray[Any]:
        """Converts the number of a combination into the combination.

        :param act: integers ``(...)``.
        :return: the combination, ``(..., A)``, an element of the ``MultiDiscrete``.
        """
        combination = np.stack(np.unravel_index(np.asarray(act), tuple(self.nvec)), axis=-1)
        action: NDArray[Any] = (combination + self._start).astype(self._start.dtype)
        return action


class TruncatedAsTerminated(gym.Wrapper[Any, Any, Any, Any]):
    """Reports truncated episodes as terminated.

    This is right only if the observation contains the elapsed time; otherwise it biases the estimated values.

    :param env: any environment.
    """

    def __getattr__(self, name: str) -> Any:
        """Returns an attribute of the wrapped environment, such as ``compute_reward``, as Gymnasium's wrappers did."""
        if name.startswith("_") or name == "env":  # while a wrapper is unpickled it has no environment
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return self.env.get_wrapper_attr(name)

    def step(self, act: object) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Steps the environment, and sets ``terminated`` if ``truncated`` is set.

        :param act: the action.
        :return: ``(obs, reward, terminated, truncated, info)``.
        """
        obs, reward, terminated, truncated, info = self.env.step(act)
        return obs, reward, terminated or truncated, truncated, info
