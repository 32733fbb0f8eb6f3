"""The template of conservative learners of continuous actions: values of sampled actions, and calibration."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from rlfast.data import Batch, to_numpy, to_torch
from rlfast.functional.distributions import SquashedNormal
from rlfast.functional.losses import soft_value
from rlfast.policy.components.memory.sequences import actor_output
from rlfast.policy.components.temperature import Temperature
from rlfast.policy.learners.continuous.squashed_actor import SquashedActor
from rlfast.policy.learners.replay_learner import Sample

if TYPE_CHECKING:
    from rlfast.data import ReplayBuffer

_CALIBRATION = "calibration_returns"
_IS_CALIBRATED = "has_calibration_return"  # False in rows that are added later, whose return the buffer fills with 0


class ConservativeLearner(Temperature, SquashedActor):
    """A soft learner whose critics also compute values of uniform actions, and of actions at both ends of a step."""

    learns_from_returns = False  # targets are made by the actor after its step
    critic_names = lagged_names = ("critic", "critic2")
    min_action: float
    max_action: float
    """The bounds of uniform actions, the same in each dimension."""
    num_repeat_actions: int
    """Number of actions of each of the three kinds."""
    imitation_steps: int
    """Number of first gradient steps in which the actor imitates the data."""
    calibrated: bool
    """Whether values of the policy's actions are at least the returns of the data (arXiv:2303.05479)."""

    def actor_pred(self, obs: Any, *noise: torch.Tensor, repeats: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
        """Return random actions, and their log-probabilities ``[N, 1]``.

        :param obs: observations, ``[B, ...]``.
        :param noise: standard normal numbers, ``[N, size]``; nothing to draw them.
        :param repeats: number of actions at each observation, which follow each other: N = B * repeats. Default: 1.
        """
        if self.must_call_forward():
            act, log_prob_N = self.random_actions(_repeated(obs, repeats))
        else:  # the actor is the same for all actions of an observation
            mean, std = (one[:, None] for one in actor_output(self.actor, obs, None))
            (noise_N,) = noise or (self._draw(len(mean) * repeats),)
            act, log_prob_N = SquashedNormal(mean, std).with_log_prob(noise_N.reshape(len(mean), repeats, -1))
        return act.reshape(-1, *self._act_shape), log_prob_N.reshape(-1, 1)

    def _is_due(self) -> bool:
        """Return whether the actor imitates in the next gradient step."""
        return self._iter < self.imitation_steps

    def calc_actor_loss(self, obs: Any, *noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the loss of the actor, and log-probabilities ``[B, 1]``; see :meth:`actor_pred`."""
        act, log_prob = self.actor_pred(obs, *noise)
        q1_B, q2_B = self.critic_values(obs, act)
        return -soft_value(q1_B, q2_B, log_prob.flatten(), self.temperature.value).mean(), log_prob

    def calc_imitation_loss(
        self, obs: Any, act_data: torch.Tensor, *noise: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        r"""Return the loss of an actor that imitates, and log-probabilities ``[B, 1]``; see :meth:`actor_pred`.

        .. math:: \frac1B \sum \alpha \log\pi(a \mid s) - \log\pi(\hat a \mid s), \quad a \sim \pi

        :param obs: observations.
        :param act_data: the actions of the data, ``[B, ...]``.
        """
        if self.must_call_forward():
            result = self.call_forward(obs, None, None)
            dist, log_prob = result.dist, result.log_prob
        else:
            dist = SquashedNormal(*actor_output(self.actor, obs, None))
            log_prob = dist.with_log_prob(*noise or (self._draw(len(act_data)),))[1][:, None]
        loss_B = self.temperature.value * log_prob.flatten() - dist.log_prob(act_data.flatten(1).to(log_prob.dtype))
        return loss_B.mean(), log_prob

    def calc_pi_values(
        self, obs_pi: Any, obs_to_pred: Any, *noise: torch.Tensor, lowest_N: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return values of the policy's actions less their log-probabilities, by each critic, ``[N, 1]``.

        :param obs_pi: the observations at which the policy acts: as many as ``obs_to_pred``, or fewer with several
            actions each.
        :param obs_to_pred: the observations at which the actions are rated, ``[N, ...]``.
        :param noise: see :meth:`actor_pred`.
        :param lowest_N: the least values; None for no bound.
        """
        with torch.no_grad():
            act, log_prob = self.actor_pred(obs_pi, *noise, repeats=len(obs_to_pred) // len(obs_pi))
        q1_N, q2_N = self.critic_values(obs_to_pred, act)
        if lowest_N is not None:
            q1_N, q2_N = torch.maximum(q1_N, lowest_N), torch.maximum(q2_N, lowest_N)
        return q1_N[:, None] - log_prob, q2_N[:, None] - log_prob

    def calc_random_values(self, obs: Any, act: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return values of uniform actions less their log-probability, by each critic, ``[N, 1]``.

        :param obs: observations, ``[N, ...]``.
        :param act: the actions, ``[N, ...]``.
        """
        log_prob = -math.prod(self._act_shape) * math.log(self.max_action - self.min_action)
        q1_N, q2_N = self.critic_values(obs, act)
        return q1_N[:, None] - log_prob, q2_N[:, None] - log_prob

    def sampled_values(self, sample: Sample, *draws: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return values of sampled actions less their log-probabilities, by each critic, ``[B, 3 n]`` (appendix F).

        :param sample: the transitions.
        :param draws: uniform actions, and the noise of actions at the observations and at the next ones.
        """
        many = self.num_repeat_actions
        obs = _repeated(sample.obs, many)
        lowest_N = _repeated(sample.extras[0].to(self._dtype), many) if self.calibrated else None
        uniform, noise, noise_next = draws
        parts = (
            self.calc_random_values(obs, uniform.reshape(-1, *self._act_shape)),
            self.calc_pi_values(sample.obs, obs, noise, lowest_N=lowest_N),
            self.calc_pi_values(sample.obs_next, obs, noise_next, lowest_N=lowest_N),
        )
        q1_BN, q2_BN = (torch.cat([part[critic].reshape(-1, many) for part in parts], dim=1) for critic in (0, 1))
        return q1_BN, q2_BN

    def draw_step(self, rows: int) -> tuple[torch.Tensor, ...]:
        """Draw the noise of the actor's and the targets' actions, and what :meth:`sampled_values` needs."""
        many = rows * self.num_repeat_actions
        size = (many, math.prod(self._act_shape))
        first = self._draw(rows), self._draw(rows)
        uniform = torch.rand(size, dtype=self._dtype, generator=self._torch_rng).to(self._device)
        uniform = uniform * (self.max_action - self.min_action) + self.min_action
        return (*first, uniform, self._draw(many), self._draw(many))

    def draw_next(self, rows: int) -> tuple[torch.Tensor, ...]:  # noqa: ARG002
        """Draw nothing: the noise of the targets' actions is drawn with the others."""
        return ()

    # -- calibration ---------------------------------------------------------------------------------------------------

    def process_buffer(self, buffer: "ReplayBuffer") -> "ReplayBuffer":
        """Add, if the policy is calibrated, the column ``calibration_returns``, the return from each row on, and
        ``has_calibration_return``, which is True.

        :param buffer: the buffer with the data. Rows that are added later have no such return.
        :return: the same buffer.
        """
        if self.calibrated:
            indices = buffer.sample_indices(0)
            flags = {name: getattr(buffer, name)[indices] for name in ("rew", "terminated", "truncated")}
            returns, _ = self.compute_episodic_return(Batch(**flags), buffer, indices, gamma=self.gamma, gae_lambda=1.0)
            buffer.set_array_at_key(returns.astype(np.float32), _CALIBRATION, indices)
            buffer.set_array_at_key(np.ones(len(indices), bool), _IS_CALIBRATED, indices)
        return buffer

    def process_fn(self, batch: Any, buffer: Any, indices: Any) -> Any:
        """Add sums of rewards and what follows them; see :meth:`ReplayLearner.process_fn`.

        :raises ValueError: if the policy is calibrated, and rows have no returns to calibrate by.
        """
        if self.calibrated and (_CALIBRATION not in batch or not np.all(to_numpy(batch.get(_IS_CALIBRATED, True)))):
            raise ValueError(
                "calibrated=True needs the returns of the rows, which policy.process_buffer(buffer) adds and "
                "OfflineTrainer does at its construction; give calibrated=False for rows that are collected later"
            )
        return super().process_fn(batch, buffer, indices)

    def inputs(self, obs: Any) -> Any:
        """Return observations as tensors."""
        return to_torch(obs, device=self._device)


def _repeated(rows: Any, repeats: int) -> Any:
    """Return rows with copies of each after it, ``[B * repeats, ...]``.

    :param rows: a tensor, or a ``Batch`` of tensors, ``[B, ...]``.
    """
    return rows[torch.arange(len(rows)).repeat_interleave(repeats)]
