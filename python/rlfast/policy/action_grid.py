"""Actions as indices of choices, in each of their dimensions."""

from abc import abstractmethod
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box
from numpy.typing import NDArray

from rlfast.data import to_numpy
from rlfast.data.random_actions import random_legal, sizes_of
from rlfast.env.spaces.actions import at_shares, shares_of
from rlfast.policy.base import BasePolicy
from rlfast.policy.components.action_masks import action_mask
from rlfast.utils.arguments.checks import ArgumentError


class ActionGrid(BasePolicy):
    """A policy whose actions are indices, ``[B, D]``: of evenly spaced values of a Box, or of the actions of a Discrete
    or MultiDiscrete space.
    """

    _maps_by_space = True  # with the conversion of indices before it
    _exists: torch.Tensor | None
    """Which choices each dimension has, bool ``[D, choices]``; None if each has all of them."""

    @property
    @abstractmethod
    def choices(self) -> int:
        """The number of choices of each dimension; of a Box, bounds included."""

    @staticmethod
    def check_grid(action_space: Any) -> None:
        """Check that a Box can be divided into values.

        :param action_space: action space of one environment.
        :raises ValueError: if it is a Box without bounds, or with more than one axis.
        """
        if isinstance(action_space, Box) and not (action_space.is_bounded() and len(action_space.shape) == 1):
            raise ValueError(f"a Box of actions to be cut into values needs bounds and one axis, got {action_space}")

    def compare_choices(self, dimensions: int | None) -> None:
        """Compare the choices with the action space, whose dimensions may have fewer.

        :param dimensions: D; None if it is not known, then all choices are taken to exist.
        :raises ArgumentError: the actions of the space have more or fewer dimensions.
        """
        space = self.action_space
        if dimensions is None:
            self.register_buffer("_exists", None, persistent=False)
            return
        if dimensions != np.prod(space.shape or (), dtype=int):
            raise ArgumentError(f"the model has {dimensions} branches, but the action space is {space}")
        sizes = torch.tensor(sizes_of(space))[:, None]
        exists = torch.arange(self.choices) < sizes
        self.register_buffer("_exists", None if exists.all() else exists, persistent=False)

    def legal_choices(self, obs: Any) -> Any:
        """Return which choices are legal, bool ``[B, D, choices]``, or ``[D, choices]`` for all rows; None if all are.

        :param obs: observations, with ``obs.mask``, ``[B, D, choices]``, if choices may be illegal.
        """
        mask = action_mask(obs)
        if self._exists is None or mask is None:
            return mask if self._exists is None else self._exists
        return self._exists & torch.as_tensor(mask, device=self._exists.device)

    def random_choices(self, shape: tuple[int, ...], obs: Any) -> NDArray[np.int64]:
        """Draw uniformly among the legal choices, in every dimension.

        :param shape: ``(B, D)``.
        :param obs: as for :meth:`legal_choices`.
        """
        legal = self.legal_choices(obs)
        legal = np.ones((), bool) if legal is None else to_numpy(legal)
        return random_legal(self.rng, np.broadcast_to(legal, (*shape, self.choices)))

    def map_action(self, act: Any) -> Any:
        """Return actions for the environment: of a Box, the values at the indices ``act``."""
        if isinstance(self.action_space, Box):
            return at_shares(self.action_space, to_numpy(act) / (self.choices - 1))
        return super().map_action(to_numpy(act).reshape(*np.shape(act)[:-1], *(self.action_space.shape or ())))

    def map_action_inverse(self, act: Any) -> Any:
        """Return the indices of an environment's actions: of a Box, those of the nearest values."""
        if isinstance(self.action_space, Box):
            return np.rint(shares_of(self.action_space, to_numpy(act)) * (self.choices - 1)).astype(np.int64)
        axes = np.ndim(act) - len(self.action_space.shape or ())
        return super().map_action_inverse(act).reshape(*np.shape(act)[:axes], -1)
