"""A wrapper of vector environments that scales rewards by running statistics of returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlfast.env.backends.base import Rows, Tree
from rlfast.env.backends.info import Info
from rlfast.env.vector.arguments import Ids, Seeds, as_ids
from rlfast.env.wrappers.vector import VectorEnvWrapper
from rlfast.utils.statistics import RunningMeanStd


class VectorEnvNormReward(VectorEnvWrapper):
    """Divides rewards by the running standard deviation of discounted returns, as Gymnasium's ``NormalizeReward``.

    The discounted return of an environment after a step is ``R = gamma * R + rew``, with ``R = 0`` before the first
    step of each episode (Engstrom et al., "Implementation matters in deep policy gradients", arXiv:2005.12729,
    algorithm 1). The statistics are updated before they are applied. Unlike Gymnasium's wrapper, this one also begins
    anew after a truncation, counts no reward of an episode for the next one, and bounds the scaled rewards.

    Statistics of collectors still report the returns in the environments' own rewards.

    :param venv: the vector environment to wrap, as for :class:`VectorEnvWrapper`.
    :param gamma: the discount factor of the learner, within 0 and 1.
    :param update_return_rms: whether rewards update the statistics.
    :param clip_max: the largest absolute value of a scaled reward; None for no limit.
    :param epsilon: added to the variance before its square root is taken.
    :raises TypeError: ``venv`` is not a vector environment.
    :raises ValueError: ``gamma`` is not within 0 and 1.

    >>> import gymnasium as gym
    >>> from rlfast.env import DummyVectorEnv, VectorEnvNormReward
    >>> envs = VectorEnvNormReward(DummyVectorEnv([lambda: gym.make("CartPole-v1")] * 2), gamma=0.5)
    >>> obs, info = envs.reset(seed=0)
    >>> for _ in range(2):
    ...     obs, rew, terminated, truncated, info = envs.step([0, 1])
    >>> envs.return_rms.mean.item(), envs.return_rms.var.item()  # of the returns 1, 1, 1.5, 1.5
    (1.25, 0.0625)
    >>> rew.round(3).tolist()  # 1 / 0.25
    [4.0, 4.0]
    >>> envs.close()
    """

    def __init__(
        self,
        venv: object,
        gamma: float = 0.99,
        update_return_rms: bool = True,
        *,
        clip_max: float | None = 10.0,
        epsilon: float = 1e-8,
    ) -> None:
        super().__init__(venv)
        if not 0 <= gamma <= 1:
            raise ValueError(f"gamma must be within 0 and 1, got {gamma}")
        self.gamma, self.update_return_rms = gamma, update_return_rms
        self.return_rms = RunningMeanStd(clip_max=clip_max, epsilon=epsilon)
        self._sums: NDArray[np.float64] = np.zeros(len(self.venv))  # of the running episodes; (N, agents) for several
        self._discounted = self._sums.copy()

    def state_dict(self) -> dict[str, Any]:
        """Returns the statistics and the running returns as plain data: float64 arrays ``mean`` and ``var``, the int
        ``count``, and the float64 arrays ``sums`` and ``discounted`` of the running episodes, ``(N,)``.
        """
        running = {"sums": self._sums.copy(), "discounted": self._discounted.copy()}
        rms = self.return_rms
        return {"mean": rms.mean.copy(), "var": rms.var.copy(), "count": rms.count, **running}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what :meth:`state_dict` returned.

        :param state: ``mean``, ``var``, ``count``, ``sums`` and ``discounted``.
        :raises ValueError: the state is of another number of environments; nothing has changed.
        """
        mean, var, sums, discounted = (
            np.array(state[key], np.float64) for key in ("mean", "var", "sums", "discounted")
        )
        if not len(sums) == len(discounted) == len(self.venv):
            raise ValueError(f"got the returns of {len(sums)} environments for {len(self.venv)}")
        self.return_rms.mean, self.return_rms.var, self.return_rms.count = mean, var, int(state["count"])
        self._sums, self._discounted = sums, discounted

    def reset_rows(
        self, id: Ids | None = None, seed: Seeds = None, options: dict[str, Any] | None = None, **more: Any
    ) -> tuple[Tree, Info]:
        """As :meth:`BaseVectorEnv.reset_rows`; the returns of these environments begin anew."""
        obs, info = super().reset_rows(id, seed, options, **more)
        self._start_returns(slice(None) if id is None else as_ids(id, len(self.venv)))
        return obs, info

    def recv(self, min_ready: int | None = None, timeout: float | None = None) -> Rows:
        """As :meth:`BaseVectorEnv.recv`, with scaled rewards, and the unscaled returns so far in ``returns``."""
        rows = super().recv(min_ready, timeout)
        ids, rew = rows.env_id, rows.rew
        if self._sums.shape[1:] != rew.shape[1:]:  # several agents
            self._sums, self._discounted = (np.zeros((len(self.venv), *rew.shape[1:])) for _ in range(2))
        returns = self._sums[ids] + rew if rows.returns is None else rows.returns
        discounted = self.gamma * self._discounted[ids] + rew
        if self.update_return_rms:
            self.return_rms.update(discounted if rows.valid is None else discounted[rows.valid])
        self._sums[ids], self._discounted[ids] = returns, discounted
        self._start_returns(ids[rows.done if rows.valid is None else rows.done | ~rows.valid])
        return replace(rows, rew=self._scaled(rew), returns=returns)

    def _start_returns(self, ids: NDArray[Any] | slice) -> None:
        self._sums[ids] = self._discounted[ids] = 0

    def _scaled(self, rew: NDArray[Any]) -> NDArray[np.float64]:
        rms = self.return_rms
        scaled: NDArray[np.float64] = rew / np.sqrt(rms.var + rms.eps)
        return np.clip(scaled, -rms.clip_max, rms.clip_max) if rms.clip_max else scaled
