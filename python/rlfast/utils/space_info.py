"""Properties of spaces that networks need: shapes, dimensions and the range of the actions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from rlfast.utils.runtime.extras import needed_by
from rlfast.utils.string import ToStringMixin

with needed_by("rlfast.utils.space_info"):
    import gymnasium as gym
    from gymnasium import spaces


@dataclass(kw_only=True)
class ActionSpaceInfo(ToStringMixin):
    """The size and the range of actions.

    :param action_shape: the shape of a ``Box``; the number of actions of a ``Discrete`` space.
    :param min_action: the smallest of a ``Box``'s lower bounds; the first action of a ``Discrete`` space.
    :param max_action: the largest of a ``Box``'s upper bounds; the last action of a ``Discrete`` space.
    """

    action_shape: int | Sequence[int]
    min_action: float
    max_action: float

    @property
    def action_dim(self) -> int:
        """The number of outputs that a network needs: the product of ``action_shape``."""
        return _product(self.action_shape)

    def _tostring_additional_entries(self) -> dict[str, Any]:
        return {"action_dim": self.action_dim}

    @classmethod
    def from_space(cls, space: gym.Space[Any]) -> Self:
        """Makes an instance from an action space.

        :param space: the space.
        :return: the instance.
        :raises ValueError: ``space`` is neither a ``Box`` nor ``Discrete``.
        """
        if isinstance(space, spaces.Box):
            low, high = float(space.low.min()), float(space.high.max())
            return cls(action_shape=space.shape, min_action=low, max_action=high)
        discrete = _discrete(space)
        last = discrete.start + discrete.n - 1
        return cls(action_shape=int(discrete.n), min_action=float(discrete.start), max_action=float(last))


@dataclass(kw_only=True)
class ObservationSpaceInfo(ToStringMixin):
    """The size of observations.

    :param obs_shape: the shape of a ``Box``; the number of observations of a ``Discrete`` space.
    """

    obs_shape: int | Sequence[int]

    @property
    def obs_dim(self) -> int:
        """The number of inputs that a network needs: the product of ``obs_shape``."""
        return _product(self.obs_shape)

    def _tostring_additional_entries(self) -> dict[str, Any]:
        return {"obs_dim": self.obs_dim}

    @classmethod
    def from_space(cls, space: gym.Space[Any]) -> Self:
        """Makes an instance from an observation space.

        :param space: the space.
        :return: the instance.
        :raises ValueError: ``space`` is neither a ``Box`` nor ``Discrete``.
        """
        return cls(obs_shape=space.shape if isinstance(space, spaces.Box) else int(_discrete(space).n))


@dataclass(kw_only=True)
class SpaceInfo(ToStringMixin):
    """The sizes and ranges of both spaces of an environment.

    >>> import gymnasium
    >>> info = SpaceInfo.from_env(gymnasium.make("CartPole-v1"))
    >>> info.observation_info.obs_shape, info.action_info.action_shape
    ((4,), 2)

    :param action_info: those of its actions.
    :param observation_info: those of its observations.
    """

    action_info: ActionSpaceInfo
    observation_info: ObservationSpaceInfo

    @classmethod
    def from_env(cls, env: gym.Env[Any, Any]) -> Self:
        """Makes an instance from the spaces of an environment; see :meth:`from_spaces`.

        :param env: the environment.
        :return: the instance.
        """
        return cls.from_spaces(env.action_space, env.observation_space)

    @classmethod
    def from_spaces(cls, action_space: gym.Space[Any], observation_space: gym.Space[Any]) -> Self:
        """Makes an instance from two spaces.

        :param action_space: the action space.
        :param observation_space: the observation space.
        :return: the instance.
        :raises ValueError: a space is neither a ``Box`` nor ``Discrete``.
        """
        return cls(
            action_info=ActionSpaceInfo.from_space(action_space),
            observation_info=ObservationSpaceInfo.from_space(observation_space),
        )


def _discrete(space: gym.Space[Any]) -> spaces.Discrete:
    if isinstance(space, spaces.Discrete):
        return space
    raise ValueError(f"the space must be a Box or Discrete, got {space}: read the shapes of its parts yourself")


def _product(shape: int | Sequence[int]) -> int:
    return shape if isinstance(shape, int) else math.prod(shape)
