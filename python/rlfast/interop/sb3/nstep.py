"""Transitions over several steps."""

from __future__ import annotations

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
        size, counts = self.buffer_size, np.arange(self.n_steps)
        steps = rows % size
        reached = rows[:, None] + counts
        seam = steps + self.n_steps > size
        if seam.any():
            reached[seam] -= np.where(steps[seam, None] + counts >= size, size, 0)
        fields = self._columns.take(reached, NUMBERS)
        rewards, dones, timeouts = (fields[name] for name in NUMBERS)
        newest = rows - steps + (self.pos - 1) % size
        over = (dones != 0) | (timeouts != 0) | (reached == newest[:, None])
        over[:, -1] = True
        ends = over.argmax(axis=1)
        inside = counts <= ends[:, None]
        returns = self._normalize_reward(rewards, env) * (self.gamma ** counts.astype(np.float32))
        returns = (returns * inside).sum(axis=1)
        discounts = self.gamma ** (ends + 1).astype(np.float32)
        at_end = (np.arange(len(rows)), ends)
        final = dones[at_end] * (1 - timeouts[at_end])
        return reached[at_end], returns, final, discounts[:, None]
