"""Continuous actions as indices of evenly spaced values."""

from abc import abstractmethod
from typing import Any

import numpy as np
from gymnasium.spaces import Box

from rlfast.data import to_numpy
from rlfast.policy.acting import ActingPolicy


class ActionGrid(ActingPolicy):
    """A policy whose actions are indices, ``[B, D]``, of evenly spaced values of a Box."""

    @property
    @abstractmethod
    def choices(self) -> int:
        """The number of values of each dimension, bounds included."""

    @staticmethod
    def check_grid(action_space: Any) -> None:
        """Check that a Box can be divided into values.

        :param action_space: action space of one environment.
        :raises ValueError: if it is a Box without bounds, or with more than one axis.
        """
        if isinstance(action_space, Box) and not (action_space.is_bounded() and len(action_space.shape) == 1):
            raise ValueError(f"a Box of actions to be cut into values needs bounds and one axis, got {action_space}")

    def map_action(self, act: Any) -> Any:
        """Return actions for the environment: of a Box, the values at the indices ``act``."""
        if not isinstance(self.action_space, Box):
            return super().map_action(act)
        low, high = self.action_space.low, self.action_space.high
        share = to_numpy(act) / (self.choices - 1)
        return (low + share * (high - low)).astype(self.action_space.dtype)

    def map_action_inverse(self, act: Any) -> Any:
        """Return the indices of an environment's actions: of a Box, those of the nearest values."""
        if not isinstance(self.action_space, Box):
            return super().map_action_inverse(act)
        low, high = self.action_space.low, self.action_space.high
        return np.rint((np.asarray(act) - low) / (high - low) * (self.choices - 1)).astype(np.int64)
