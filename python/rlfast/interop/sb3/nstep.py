"""Transitions over several steps."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common import buffers as host
from stable_baselines3.common.vec_env import VecNormalize

from rlfast.interop._columns import NUMBERS, Index
from rlfast.interop.sb3.replay import ReplayBuffer


class NStepReplayBuffer(ReplayBuffer, host.NStepReplayBuffer):
    r"""Stable-Baselines3's n-step replay buffer over the Rust engine, for dict observations as well.

    A sample's reward is :math:`\sum_{k<m} \gamma^k r_{t+k}` over the :math:`m \le n` steps that follow in its episode,
    its next observation and ``dones`` are those of the last of them, and its ``discounts`` are :math:`\gamma^m`.

    :param args: see :class:`ReplayBuffer`, as for ``kwargs``.
    :param n_steps: steps at most, >= 1.
    :param gamma: discount factor.
    :raises ValueError: ``n_steps`` below 1.
    """

    def __init__(self, *args: Any, n_steps: int = 3, gamma: float = 0.99, **kwargs: Any) -> None:
        if n_steps < 1:
            raise ValueError(f"n_steps must be at least 1, got {n_steps}")
        ReplayBuffer.__init__(self, *args, **kwargs)
        self.n_steps = n_steps
        self.gamma = gamma

    def _samples(self, rows: Index, env: VecNormalize | None) -> Any:
        last, rewards, dones, discounts = self._unrolled(rows, env)
        fields = self._columns.take(rows, ("obs", "actions"))
        next_obs = self._columns.take(last, ("obs_next",))["obs_next"]
        samples = self._tensors(fields["obs"], fields["actions"], next_obs, dones, rewards, env)
        return samples._replace(discounts=self.to_torch(discounts, copy=False))

    def _unrolled(
        self, rows: Index, env: VecNormalize | None
    ) -> tuple[Index, NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
        """The last row that each row reaches, the sum of rewards until then, its ``dones`` and the discount."""
        size, n_steps = self.buffer_size, self.n_steps
        powers, discounts = _tables(n_steps, self.gamma)
        steps = rows % size
        reached = rows[:, None] + np.arange(n_steps)
        seam = steps > size - n_steps
        if seam.any():
            reached[seam] -= np.where(steps[seam, None] + np.arange(n_steps) >= size, size, 0)
        fields = self._columns.take(reached, NUMBERS)
        rewards, dones, timeouts = (fields[name] for name in NUMBERS)
        over = (dones + timeouts) != 0
        over[:, -1] = True
        ends = np.minimum(over.argmax(axis=1), (self.pos - 1 - steps) % size)  # the newest step has no future
        returns = (self._normalize_reward(rewards, env) * powers[ends]).sum(axis=1)
        at_end = np.arange(0, rewards.size, n_steps) + ends
        final = dones.take(at_end) * (1 - timeouts.take(at_end))
        return reached.take(at_end), returns, final, discounts[ends]


@cache
def _tables(n_steps: int, gamma: float) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """For each count of further steps: the weights of the rewards, ``[n, n]``, and the discount after them, ``[n, 1]``.

    Powers as the host takes them, in float32.
    """
    counts = np.arange(n_steps)
    weights = np.where(counts <= counts[:, None], gamma ** counts.astype(np.float32), np.float32(0))
    return weights, gamma ** (counts[:, None] + 1).astype(np.float32)
