"""Drawing random actions, for several environments at once and among the legal ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from rlfast._core import integers_of_each, uniform_below
from rlfast.utils import tree
from rlfast.utils.runtime.extras import needed_by

with needed_by("rlfast.env.spaces.random_actions"):
    import gymnasium as gym
    from gymnasium.spaces import Discrete, MultiDiscrete


class RandomActions:
    """Samples the action spaces of environments, with the same results as their ``sample`` methods.

    :param space: a list with one space for each environment, or one space for all of them together.
    :param env_num: the number of environments.
    :param single: with one space for all, the space of each of them, to which masks belong; None for that of a row of a
        MultiDiscrete.

    >>> RandomActions([Discrete(5, seed=0), Discrete(5, seed=1)], 2)(np.array([1, 0])).tolist()
    [2, 4]
    >>> [int(Discrete(5, seed=i).sample()) for i in (1, 0)]
    [2, 4]
    """

    def __init__(
        self, space: gym.Space[Any] | Sequence[gym.Space[Any]], env_num: int, single: gym.Space[Any] | None = None
    ) -> None:
        self._space, self._env_num = space, env_num
        self._shared: Discrete[Any] | None = None  # the common space, if all can be sampled in one call
        self._single = single
        if isinstance(space, gym.Space):
            self._is_counted = type(space) is MultiDiscrete and _counts_from_zero(space)
            if single is None and isinstance(space, MultiDiscrete) and space.nvec.ndim == 1:
                self._single = Discrete(int(space.nvec[0]), start=int(space.start[0]))
            return
        self._single = space[0]
        if all(_is_plain(one) and one == space[0] for one in space):
            self._shared = space[0]  # type: ignore[assignment]

    def __call__(self, ids: NDArray[np.int64], mask: NDArray[np.bool_] | None = None) -> Any:
        """Draws one action for each of the environments ``ids``.

        :param ids: numbers of environments.
        :param mask: bool ``[len(ids), ...]``, True for legal actions, with as many elements for each environment as
            there are choices; None, or an array of another size, for no restriction.
        """
        space: Any = self._space
        if mask is not None and (sizes := sizes_of(self._single)) and mask[:1].size == sum(sizes):
            return self._legal(ids, mask.reshape(len(ids), -1), sizes)
        if isinstance(self._space, gym.Space):
            sample = uniform_below(space.np_random.bit_generator, space.nvec) if self._is_counted else space.sample()
            return sample if len(ids) == self._env_num else tree.take(sample, ids)
        if self._shared is None:
            return tree.collate([space[i].sample() for i in ids.tolist()])
        drawn = integers_of_each([space[i].np_random.bit_generator for i in ids.tolist()], int(self._shared.n))
        return drawn + self._shared.start if self._shared.start else drawn

    def streams(self) -> tuple[int, Any] | None:
        """Return what actions that are counted from 0 are drawn from.

        :return: the number of actions, and the bit generators as :func:`rlfast._core.collect` takes them; None if the
            actions come in another way.
        """
        space: Any = self._space
        if isinstance(self._space, gym.Space):
            is_same = self._is_counted and (space.nvec == space.nvec[0]).all()
            return (int(space.nvec[0]), space.np_random.bit_generator) if is_same else None
        if self._shared is None or self._shared.start != 0:
            return None
        return int(self._shared.n), [one.np_random.bit_generator for one in space]

    def _legal(self, ids: NDArray[np.int64], mask: NDArray[np.bool_], sizes: list[int]) -> Any:
        """Draws a legal action for each environment, by the random stream of its space."""
        spaces, single = cast("Any", self._space), cast("Any", self._single)
        if isinstance(self._space, gym.Space):
            drawn = random_legal(spaces.np_random, mask, sizes).reshape(len(ids), *single.shape)
            return (drawn + single.start).astype(single.dtype)
        legal = mask.astype(np.int8)
        if isinstance(single, Discrete):
            return np.stack([spaces[i].sample(mask=row) for i, row in zip(ids.tolist(), legal, strict=True)])
        if single.nvec.ndim == 1:
            ends = np.cumsum(sizes)[:-1]
            rows = zip(ids.tolist(), legal, strict=True)
            return np.stack([spaces[i].sample(mask=tuple(np.split(row, ends))) for i, row in rows])
        own = [(spaces[i], row) for i, row in zip(ids.tolist(), mask, strict=True)]
        rows_drawn = [random_legal(one.np_random, row, sizes).reshape(one.shape) + one.start for one, row in own]
        return np.stack(rows_drawn).astype(single.dtype)


def sizes_of(space: gym.Space[Any] | None) -> list[int]:
    """Returns the number of actions of each choice of an action space; nothing if its actions are not counted.

    >>> sizes_of(Discrete(5)), sizes_of(MultiDiscrete([2, 3]))
    ([5], [2, 3])
    """
    if isinstance(space, MultiDiscrete):
        sizes: list[int] = np.ravel(space.nvec).tolist()
        return sizes
    return [int(space.n)] if isinstance(space, Discrete) else []


def _is_plain(space: gym.Space[Any]) -> bool:
    """Whether the space is exactly a ``Discrete(n, start=start)`` with the dtype int64."""
    return type(space) is Discrete and space.dtype == np.int64 and space.n < 2**32


def _counts_from_zero(space: MultiDiscrete) -> bool:
    """Whether the space is one axis of int64 numbers that start at 0: the batched space of several ``Discrete(n)``."""
    return space.nvec.ndim == 1 and space.nvec.dtype == space.dtype == np.int64 and not space.start.any()


def random_legal(
    rng: np.random.Generator, mask: NDArray[np.bool_], sizes: Sequence[int] | None = None
) -> NDArray[np.int64]:
    """Draw uniformly among legal actions. Where none is legal, the first counts as the only legal one.

    :param rng: the source of random numbers.
    :param mask: bool ``[..., actions]``, True for legal actions.
    :param sizes: the numbers of actions of several choices, one after the other in the last axis of ``mask``; None for
        one choice.
    :return: int64 ``[...]``, counted from 0; ``[..., choices]`` with ``sizes``.

    >>> random_legal(np.random.default_rng(0), np.array([[False, True], [True, False]])).tolist()
    [1, 0]
    >>> random_legal(np.random.default_rng(0), np.array([[False, True, False, False, True]]), [2, 3]).tolist()
    [[1, 2]]
    """
    drawn = np.where(mask, rng.random(mask.shape), -1.0)
    if sizes is None:
        choice: NDArray[np.int64] = drawn.argmax(axis=-1)
        return choice
    return np.stack([one.argmax(axis=-1) for one in np.split(drawn, np.cumsum(sizes)[:-1], axis=-1)], axis=-1)
