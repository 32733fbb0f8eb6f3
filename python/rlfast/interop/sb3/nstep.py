"""Replay buffers of n-step transitions."""

from __future__ import annotations

from functools import partial
from typing import Any

from stable_baselines3.common import buffers as host
from stable_baselines3.common.vec_env import VecNormalize

from rlfast.interop._columns import Index
from rlfast.interop.sb3.replay import ReplayBuffer


class NStepReplayBuffer(ReplayBuffer, host.NStepReplayBuffer):
    r"""Stable-Baselines3's n-step replay buffer on the Rust engine, also for dict observations.

    The reward of a sample is :math:`\sum_{k<m} \gamma^k r_{t+k}` over the :math:`m \le n` steps that follow in its
    episode; its next observation and ``dones`` are those of the last of these steps, and its ``discounts`` are
    :math:`\gamma^m`.

    :param args: as in :class:`ReplayBuffer`; so are ``kwargs``.
    :param n_steps: the largest number of steps, at least 1.
    :param gamma: the discount factor.
    :raises ValueError: ``n_steps`` is below 1.
    """

    def __init__(self, *args: Any, n_steps: int = 3, gamma: float = 0.99, **kwargs: Any) -> None:
        if n_steps < 1:
            raise ValueError(f"n_steps must be at least 1, got {n_steps}")
        ReplayBuffer.__init__(self, *args, **kwargs)
        self.n_steps = n_steps
        self.gamma = gamma

    def _samples(self, rows: Index, env: VecNormalize | None) -> Any:
        normalize = partial(self._normalize_reward, env=env)
        next_obs, rewards, dones, discounts = self._columns.nstep(rows, self.n_steps, self.gamma, normalize)
        fields = self._columns.take(rows, ("obs", "actions"))
        samples = self._tensors(fields["obs"], fields["actions"], next_obs, dones, rewards, env)
        return samples._replace(discounts=self._converter()(discounts))
