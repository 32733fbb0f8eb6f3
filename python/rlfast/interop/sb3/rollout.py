"""Rollout buffers of on-policy algorithms."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch as th
from numpy.typing import NDArray
from stable_baselines3.common import buffers as host
from stable_baselines3.common.type_aliases import DictRolloutBufferSamples, RolloutBufferSamples
from stable_baselines3.common.vec_env import VecNormalize

from rlfast.functional import gae


class RolloutBuffer(host.RolloutBuffer):
    """Stable-Baselines3's rollout buffer with advantages computed in Rust, and one copy less of each mini-batch.

    :param buffer_size: as in ``stable_baselines3.common.buffers.RolloutBuffer``; so are all other parameters.
    """

    def compute_returns_and_advantage(self, last_values: th.Tensor, dones: NDArray[Any]) -> None:
        """Computes generalized advantage estimates (:func:`rlfast.functional.gae`) and returns.

        :param last_values: values of the observations after the last step, one for each environment.
        :param dones: whether that step ended an episode, one for each environment.
        """
        after = last_values.detach().cpu().numpy().reshape(1, -1).astype(np.float32, copy=False)
        ends = np.concatenate((self.episode_starts[1:], np.reshape(dones, (1, -1)))).astype(np.bool_)
        next_values = np.concatenate((self.values[1:], after))
        columns = [0, 0] if self.n_envs == 1 else slice(None)  # a single column would be summed in another order
        rewards, values, next_values, ends = (
            array[:, columns] for array in (self.rewards, self.values, next_values, ends)
        )
        advantages = gae(rewards, values, next_values, ends, None, self.gamma, self.gae_lambda)
        self.advantages = np.ascontiguousarray(advantages[:, : self.n_envs])
        self.returns = self.advantages + self.values

    def _get_samples(self, batch_inds: NDArray[Any], env: VecNormalize | None = None) -> RolloutBufferSamples:  # noqa: ARG002
        return RolloutBufferSamples(self._fresh(self.observations[batch_inds]), *self._numbers(batch_inds))

    def _numbers(self, batch_inds: NDArray[Any]) -> tuple[th.Tensor, ...]:
        """Returns actions, values, log-probabilities, advantages and returns."""
        actions = self.actions[batch_inds].astype(np.float32, copy=False)
        rest = (self.values, self.log_probs, self.advantages, self.returns)
        return (self._fresh(actions), *(self._fresh(column[batch_inds].reshape(-1)) for column in rest))

    def _fresh(self, array: NDArray[Any]) -> th.Tensor:
        """Converts an array that is not shared to a tensor, without a copy."""
        return self.to_torch(array, copy=False)


class DictRolloutBuffer(RolloutBuffer, host.DictRolloutBuffer):
    """Stable-Baselines3's rollout buffer of dict observations; see :class:`RolloutBuffer`.

    :param buffer_size: as in ``stable_baselines3.common.buffers.DictRolloutBuffer``; so are all other parameters.
    """

    def _get_samples(  # type: ignore[override]
        self,
        batch_inds: NDArray[Any],
        env: VecNormalize | None = None,  # noqa: ARG002
    ) -> DictRolloutBufferSamples:
        observations = {key: self._fresh(column[batch_inds]) for key, column in self.observations.items()}
        return DictRolloutBufferSamples(observations, *self._numbers(batch_inds))
