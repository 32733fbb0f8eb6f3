"""Hindsight experience replay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Any

from numpy.typing import NDArray

from rlfast.data.buffer.base import ReplayBuffer
from rlfast.data.buffer.options.relabelling import Hindsight

RewardFn = Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]


class HERReplayBuffer(ReplayBuffer):
    """A replay buffer that gives sampled rows goals which were achieved later in their episode.

    Andrychowicz et al. 2017, *Hindsight Experience Replay*, arXiv:1707.01495, the *future* strategy. Observations are
    dicts with ``observation``, ``achieved_goal`` and ``desired_goal``. The store is never changed: goals and rewards
    are written into the batch, and ``nstep`` and ``buffer[rows]`` of the sampled indices use the same goals.

    :param size: rows at most.
    :param compute_reward_fn: ``(achieved_goal[N, ...], desired_goal[N, ...]) -> reward[N]``; called once per batch.
    :param horizon: the longest an episode can be.
    :param future_k: on average ``future_k - 1`` relabelled rows for each untouched one.
    :param kwargs: see :class:`ReplayBuffer`.

    >>> import numpy as np
    >>> from rlfast.data import Batch, HERReplayBuffer
    >>> def reward(achieved, desired):
    ...     return -(achieved != desired).any(-1).astype(float)
    >>> buf = HERReplayBuffer(8, reward, horizon=8, seed=0)
    >>> for i in range(4):
    ...     obs, obs_next = (dict(observation=[j], achieved_goal=[j], desired_goal=[9]) for j in (i, i + 1))
    ...     row = buf.add(Batch(obs=obs, act=0, rew=-1.0, terminated=i == 3, truncated=False, obs_next=obs_next))
    >>> batch, indices = buf.sample(100)
    >>> sorted(set(batch.obs.desired_goal[:, 0].tolist()))
    [1, 2, 3, 4, 9]
    >>> buf.rew
    array([-1., -1., -1., -1.,  0.,  0.,  0.,  0.])
    """

    def __init__(
        self, size: int, compute_reward_fn: RewardFn, horizon: int, future_k: float = 8.0, **kwargs: Any
    ) -> None:
        super().__init__(size, relabel=Hindsight(compute_reward_fn, horizon, future_k), **kwargs)

    @property
    def _hindsight(self) -> Hindsight:
        assert self._config.relabel is not None
        return self._config.relabel

    @property
    def compute_reward_fn(self) -> RewardFn:
        """What the rewards of relabelled rows come from."""
        return self._hindsight.compute_reward_fn

    @compute_reward_fn.setter
    def compute_reward_fn(self, value: RewardFn) -> None:
        self._change(compute_reward_fn=value)

    @property
    def horizon(self) -> int:
        """The longest an episode can be."""
        return self._hindsight.horizon

    @horizon.setter
    def horizon(self, value: int) -> None:
        self._change(horizon=value)

    @property
    def future_p(self) -> float:
        """The probability that a drawn row is relabelled."""
        return 1 - 1 / self._hindsight.future_k

    @future_p.setter
    def future_p(self, value: float) -> None:
        if not 0 <= value <= 1:
            raise ValueError(f"future_p is a probability, 0 to 1, got {value}")
        self._change(future_k=inf if value == 1 else 1 / (1 - value))

    def _change(self, **changes: Any) -> None:
        """Changes the buffer's own part in place, which a manager and its children share."""
        changed = replace(self._hindsight, **changes)
        for name in changes:
            object.__setattr__(self._hindsight, name, getattr(changed, name))
        self.options = self._options()
