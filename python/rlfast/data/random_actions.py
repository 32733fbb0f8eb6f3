"""Drawing random actions for several environments at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Discrete, MultiDiscrete
from numpy.typing import NDArray

from rlfast._core import integers_of_each, uniform_below
from rlfast.utils import tree


class RandomActions:
    """Samples the action spaces of environments, with the same results as their ``sample`` methods.

    :param space: a list with one space for each environment, or one space for all of them together.
    :param env_num: the number of environments.

    >>> RandomActions([Discrete(5, seed=0), Discrete(5, seed=1)], 2)(np.array([1, 0])).tolist()
    [2, 4]
    >>> [int(Discrete(5, seed=i).sample()) for i in (1, 0)]
    [2, 4]
    """

    def __init__(self, space: gym.Space[Any] | Sequence[gym.Space[Any]], env_num: int) -> None:
        self._space, self._env_num = space, env_num
        self._shared: Discrete[Any] | None = None  # the common space, if all can be sampled in one call
        if isinstance(space, gym.Space):
            self._is_counted = type(space) is MultiDiscrete and _counts_from_zero(space)
        elif all(_is_plain(one) and one == space[0] for one in space):
            self._shared = space[0]  # type: ignore[assignment]

    def __call__(self, ids: NDArray[np.int64]) -> Any:
        """Draws one action for each of the environments ``ids``."""
        space: Any = self._space
        if isinstance(self._space, gym.Space):
            sample = uniform_below(space.np_random.bit_generator, space.nvec) if self._is_counted else space.sample()
            return sample if len(ids) == self._env_num else tree.take(sample, ids)
        if self._shared is None:
            return tree.collate([space[i].sample() for i in ids.tolist()])
        drawn = integers_of_each([space[i].np_random.bit_generator for i in ids.tolist()], int(self._shared.n))
        return drawn + self._shared.start if self._shared.start else drawn


def _is_plain(space: gym.Space[Any]) -> bool:
    """Whether the space is exactly a ``Discrete(n, start=start)`` with the dtype int64."""
    return type(space) is Discrete and space.dtype == np.int64 and space.n < 2**32


def _counts_from_zero(space: MultiDiscrete) -> bool:
    """Whether the space is one axis of int64 numbers that start at 0: the batched space of several ``Discrete(n)``."""
    return space.nvec.ndim == 1 and space.nvec.dtype == space.dtype == np.int64 and not space.start.any()
