"""Continuous actions as numbers of evenly spaced values."""

from abc import abstractmethod
from typing import Any

import numpy as np
from gymnasium.spaces import Box

from rlfast.data import to_numpy
from rlfast.policy.acting import ActingPolicy


class ActionGrid(ActingPolicy):
    """A policy whose actions are numbers, ``[B, D]``, that stand for values of a Box."""

    @property
    @abstractmethod
    def choices(self) -> int:
        """How many values each dimension has, its bounds included."""

    @staticmethod
    def check_grid(action_space: Any) -> None:
        """Refuse a Box that cannot be cut into values.

        :raises ValueError: it has no bounds, or more than one axis.
        """
        if isinstance(action_space, Box) and not (action_space.is_bounded() and len(action_space.shape) == 1):
            raise ValueError(f"a Box of actions to be cut into values needs bounds and one axis, got {action_space}")

    def map_action(self, act: Any) -> Any:
        """Give what an environment takes: of a Box, the values that numbers stand for."""
        if not isinstance(self.action_space, Box):
            return super().map_action(act)
        low, high = self.action_space.low, self.action_space.high
        share = to_numpy(act) / (self.choices - 1)
        return (low + share * (high - low)).astype(self.action_space.dtype)

    def map_action_inverse(self, act: Any) -> Any:
        """Give the numbers of an environment's actions: of a Box, those of the nearest values."""
        if not isinstance(self.action_space, Box):
            return super().map_action_inverse(act)
        low, high = self.action_space.low, self.action_space.high
        return np.rint((np.asarray(act) - low) / (high - low) * (self.choices - 1)).astype(np.int64)
