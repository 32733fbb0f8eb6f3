"""Wrappers around single environments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsFloat

import gymnasium as gym
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class ContinuousToDiscrete(gym.ActionWrapper[Any, Any, Any]):
    """Turns a ``Box`` action space into a ``MultiDiscrete`` one, a number of steps along each dimension.

    :param env: an environment with a bounded ``Box`` action space of shape ``(A,)``.
    :param action_per_dim: number of evenly spaced values, bounds included, for all dimensions or for each.
    :raises TypeError: the action space is no ``Box`` of one axis.
    :raises ValueError: a bound is infinite, or a dimension has fewer than two values.
    """

    def __init__(self, env: gym.Env[Any, Any], action_per_dim: int | list[int]) -> None:
        super().__init__(env)
        space = env.action_space
        if not isinstance(space, gym.spaces.Box) or len(space.shape) != 1:
            raise TypeError(f"ContinuousToDiscrete needs a Box action space of one axis, got {space}")
        counts = [action_per_dim] * space.shape[0] if isinstance(action_per_dim, int) else list(action_per_dim)
        if len(counts) != space.shape[0] or min(counts) < 2:
            raise ValueError(f"action_per_dim must be 2 or more for each of {space.shape[0]} dimensions, got {counts}")
        if not space.is_bounded():
            raise ValueError(f"ContinuousToDiscrete needs finite bounds, got {space}")
        self.action_space = gym.spaces.MultiDiscrete(np.array(counts))
        self.mesh = [
            np.linspace(low, high, count, dtype=space.dtype)
            for low, high, count in zip(space.low, space.high, counts, strict=True)
        ]

    def action(self, act: Any) -> NDArray[Any]:
        """The continuous action ``[..., A]`` that the discrete one stands for."""
        act = np.asarray(act)
        return np.stack([mesh[act[..., i]] for i, mesh in enumerate(self.mesh)], axis=-1)


class MultiDiscreteToDiscrete(gym.ActionWrapper[Any, Any, Any]):
    """Numbers the combinations of a ``MultiDiscrete`` action space, the last dimension running fastest.

    :param env: an environment with a ``MultiDiscrete`` action space.
    :raises TypeError: the action space is another.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        space = env.action_space
        if not isinstance(space, gym.spaces.MultiDiscrete):
            raise TypeError(f"MultiDiscreteToDiscrete needs a MultiDiscrete action space, got {space}")
        self.nvec = space.nvec
        self.bases = np.cumprod([1, *self.nvec[:0:-1]])  # what a step of each dimension counts, the last first
        self.action_space = gym.spaces.Discrete(int(np.prod(self.nvec)))

    def action(self, act: Any) -> NDArray[np.int64]:
        """The combination ``[..., A]`` that the number stands for."""
        return np.stack(np.unravel_index(np.asarray(act), tuple(self.nvec)), axis=-1)


class TruncatedAsTerminated(gym.Wrapper[Any, Any, Any, Any]):
    """Reports a time limit as an end: for tasks whose clock is part of the state. Elsewhere it biases the values.

    :param env: any environment.
    """

    def step(self, act: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """As the environment's, with ``terminated`` set wherever ``truncated`` is."""
        obs, reward, terminated, truncated, info = self.env.step(act)
        return obs, reward, terminated or truncated, truncated, info
