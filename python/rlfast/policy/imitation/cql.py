import math
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from rlfast.data import Batch, ReplayBuffer, to_numpy, to_torch
from rlfast.functional.distributions import SquashedNormal
from rlfast.functional.losses import soft_value
from rlfast.functional.offline import conservative_gap
from rlfast.policy.components.memory.sequences import actor_output
from rlfast.policy.components.returns import Index
from rlfast.policy.components.shortcuts import FORWARD, Shortcut, Shortcuts, instead_of_forward
from rlfast.policy.critics import q_values, twin_critics
from rlfast.policy.modelfree.sac import SACPolicy, SACTrainingStats
from rlfast.policy.replay import Losses, Sample
from rlfast.policy.soft import SoftLearner, SoftOptions
from rlfast.utils.arguments.validation import (
    FiniteFloat,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    validate_arguments,
)
from rlfast.utils.optim import OptionalOptimizer, descend


@dataclass(kw_only=True)
class CQLTrainingStats(SACTrainingStats):
    """The statistics of one update of CQL: each loss before its gradient step, alpha after it."""

    cql_alpha: float | None = None
    """The multiplier of the penalty in this update; None without one."""
    cql_alpha_loss: float | None = None


TCQLTrainingStats = TypeVar("TCQLTrainingStats", bound=CQLTrainingStats)


_CALIBRATION = "calibration_returns"
_IS_CALIBRATED = "has_calibration_return"  # False in rows that are added later, whose return the buffer fills with 0


@SACPolicy.register
class CQLPolicy(SoftLearner):
    r"""Conservative Q-learning, from fixed data (Kumar et al., arXiv:2006.04779, equation 4 with importance sampling,
    appendix F).

    Actor, targets and temperature are those of :class:`SACPolicy`; the loss of a critic is

    .. math::
        \frac1B \sum (y - Q(s, a))^2 + \alpha' \Bigl( w \frac1B \sum \bigl( T \log \sum_{i \le 3n} e^{(Q(s, a_i) - \log
            p(a_i)) / T} - Q(s, a) \bigr) - \tau \Bigr)

    over n uniform actions, n of the policy at s and n of it at the next observation. As in the authors' code, the
    squared error has no factor 1/2, the exponentials are summed, not averaged, the actor steps before the critics, and
    there are actions of the next observation. With ``with_lagrange``, :math:`\alpha'` rises while the penalty is above
    :math:`\tau` (equation 30); without it, :math:`\alpha'` is 1 and :math:`\tau` is 0. If ``calibrated``, each
    :math:`Q(s, a_i)` of the policy's actions is at least the return of the data from s on (Cal-QL, arXiv:2303.05479,
    equation 5.1). The squared errors are weighted as by a prioritized buffer.

    :param cql_alpha_lr: step size of Adam for :math:`\log \alpha'`. Default: 1e-4.
    :param cql_weight: weight of the penalty, w. Default: 1.
    :param temperature: softness of the maximum over actions in the penalty, T; not that of soft actor-critic,
        ``alpha``. Default: 1.
    :param with_lagrange: whether the weight of the penalty, :math:`\alpha'`, is learned, or 1. Default: True.
    :param lagrange_threshold: penalty above which its weight rises, :math:`\tau`. Default: 10.
    :param min_action: lower bound of uniform actions. Default: -1.
    :param max_action: upper bound of uniform actions. Default: 1.
    :param num_repeat_actions: number of actions of each kind in the penalty, n. Default: 10.
    :param alpha_min: lower bound of :math:`\alpha'`. Default: 0.
    :param alpha_max: upper bound of :math:`\alpha'`. Default: 1e6.
    :param clip_grad: largest norm of each critic's gradient; 0 for no limit. Default: 1.
    :param backup_entropy: whether targets contain the entropy of the policy, as those of soft actor-critic do. Where
        the penalty makes values steep, a learned ``alpha`` grows, and its entropy makes values drift. Default: True.
    :param imitation_steps: number of first gradient steps in which the actor does not raise values, but the likelihood
        of the data's actions; its loss is :meth:`calc_imitation_loss`, of the authors' code. Default: 0.
    :param calibrated: whether values of the policy's actions are at least the returns of the data. It needs
        ``process_buffer``, which :class:`OfflineTrainer` calls. Default: True.
    :param device: has no effect: the device is that of the networks.
    :param critic: as in :class:`SACPolicy`.
    :param critic_optim: as in :class:`SACPolicy`.
    :param critic2: as in :class:`SACPolicy`.
    :param critic2_optim: as in :class:`SACPolicy`.
    :param options: of :class:`~rlfast.policy.soft.SoftLearner`.
    :raises ValueError: see :class:`SACPolicy`; or bounds are in the wrong order.
    """

    stats_class = CQLTrainingStats
    learns_from_returns = False  # targets are made after the step of the actor
    shortcuts: ClassVar[Shortcuts] = {"_sample_many": Shortcut(FORWARD, "_sample_many_of_forward")}

    @validate_arguments
    def __init__(
        self,
        *,
        critic: nn.Module,
        critic_optim: OptionalOptimizer,
        critic2: nn.Module | None = None,
        critic2_optim: OptionalOptimizer = None,
        cql_alpha_lr: NonNegativeFloat = 1e-4,
        cql_weight: NonNegativeFloat = 1.0,
        temperature: PositiveFloat = 1.0,
        with_lagrange: bool = True,
        lagrange_threshold: FiniteFloat = 10.0,
        min_action: FiniteFloat = -1.0,
        max_action: FiniteFloat = 1.0,
        num_repeat_actions: PositiveInt = 10,
        alpha_min: NonNegativeFloat = 0.0,
        alpha_max: NonNegativeFloat = 1e6,
        clip_grad: NonNegativeFloat = 1.0,
        calibrated: bool = True,
        backup_entropy: bool = True,
        imitation_steps: NonNegativeInt = 0,
        device: str | torch.device = "cpu",
        **options: Unpack[SoftOptions],
    ) -> None:
        if not (min_action < max_action and alpha_min <= alpha_max):
            raise ValueError(f"bounds must rise, got {min_action}, {max_action} of actions, {alpha_min}, {alpha_max}")
        super().__init__(**options)
        twins = twin_critics(critic, critic_optim, critic2, critic2_optim)
        self.critic, self.critic_optim, self.critic2, self.critic2_optim = twins
        self.add_targets("critic", "critic2")
        self.cql_temperature, self.cql_weight, self.clip_grad = temperature, cql_weight, clip_grad
        self.with_lagrange, self.lagrange_threshold = with_lagrange, lagrange_threshold
        self.device = device
        self.cql_log_alpha = nn.Parameter(torch.zeros(1, device=self._device))
        self.cql_alpha_optim = torch.optim.Adam([self.cql_log_alpha], lr=cql_alpha_lr)
        self.min_action, self.max_action, self.num_repeat_actions = min_action, max_action, num_repeat_actions
        self.alpha_min, self.alpha_max, self.calibrated = alpha_min, alpha_max, calibrated
        self.backup_entropy, self.imitation_steps = backup_entropy, imitation_steps
        self.extra_names = (_CALIBRATION,) if calibrated else ()

    def is_due(self) -> bool:
        """Return whether the actor imitates in the next gradient step."""
        return self._iter < self.imitation_steps

    def draw_step(self, rows: int) -> tuple[torch.Tensor, ...]:
        """Draw the noise of the actor's and the targets' actions, uniform actions, and the noise of the policy's."""
        many = rows * self.num_repeat_actions
        first = self.draw_noise(rows), self.draw_noise(rows)
        size = (many, math.prod(self._act_shape))
        uniform = torch.rand(size, dtype=self._dtype, generator=self._torch_rng).to(self._device)
        uniform = uniform * (self.max_action - self.min_action) + self.min_action
        return (*first, uniform, self.draw_noise(many), self.draw_noise(many))

    def draw_next(self, rows: int) -> tuple[torch.Tensor, ...]:
        """Draw nothing: the noise of the targets' actions is drawn with the others."""
        return ()

    def gradient_step(self, sample: Sample) -> tuple[Losses, torch.Tensor]:
        """Do one step for the actor, the temperature, the multiplier, each critic and the target critics."""
        noise, noise_next, *draws = sample.draws
        if sample.is_due:
            actor_loss, log_prob_B1 = self.calc_imitation_loss(sample.obs, sample.act, noise)
        else:
            actor_loss, log_prob_B1 = self.calc_actor_loss(sample.obs, noise)
        descend(actor_loss, self.actor_optim)
        losses = {"actor_loss": actor_loss.detach(), **self.temperature.descend(log_prob_B1.flatten())}
        losses["alpha"] = self.temperature.value.reshape(())

        with torch.no_grad():
            act_next, log_prob_B1 = self.actor_pred(sample.obs_next, noise_next)
            q1_B, q2_B = self._values(sample.obs_next, act_next, self.critic_old, self.critic2_old)
            alpha = self.temperature.value if self.backup_entropy else 0.0
            returns_B = sample.bootstrapped(soft_value(q1_B, q2_B, log_prob_B1.flatten(), alpha))

        q1_B, q2_B = self._values(sample.obs, sample.act)
        q1_BN, q2_BN = self.sampled_values(sample, *draws)
        penalty1 = self.cql_weight * conservative_gap(q1_BN, q1_B, self.cql_temperature)  # equation 4
        penalty2 = self.cql_weight * conservative_gap(q2_BN, q2_B, self.cql_temperature)
        if self.with_lagrange:  # equation 30
            multiplier = self.cql_log_alpha.exp().clamp(self.alpha_min, self.alpha_max).squeeze()
            penalty1, penalty2 = penalty1 - self.lagrange_threshold, penalty2 - self.lagrange_threshold
            alpha_loss = -multiplier * (penalty1 + penalty2).detach() / 2
            penalty1, penalty2 = multiplier.detach() * penalty1, multiplier.detach() * penalty2
            descend(alpha_loss, self.cql_alpha_optim)
            losses |= {"cql_alpha": multiplier.detach(), "cql_alpha_loss": alpha_loss.detach()}

        error1_B, error2_B = returns_B - q1_B, returns_B - q2_B
        critic1_loss = (sample.weight * error1_B.square()).mean() + penalty1
        descend(critic1_loss, self.critic_optim, self.clip_grad)
        critic2_loss = (sample.weight * error2_B.square()).mean() + penalty2
        descend(critic2_loss, self.critic2_optim, self.clip_grad)
        self.sync_weight()
        losses |= {"critic1_loss": critic1_loss.detach(), "critic2_loss": critic2_loss.detach()}
        return losses, ((error1_B + error2_B) / 2).detach()

    # -- parts of the losses -------------------------------------------------------------------------------------------

    def actor_pred(self, obs: object, noise: torch.Tensor, *, repeats: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
        """Return random actions, and their log-probabilities ``[N, 1]``.

        :param obs: observations, ``[B, ...]``.
        :param noise: standard normal numbers, ``[N, size]``.
        :param repeats: number of actions at each observation, which follow each other: N = B * repeats. Default: 1.
        """
        act, log_prob_N = self.sample(obs, noise) if repeats == 1 else self._sample_many(obs, noise, repeats)
        return act.reshape(-1, *self._act_shape), log_prob_N.reshape(-1, 1)

    def _sample_many(self, obs: object, noise: torch.Tensor, repeats: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return several actions at each observation, for all of which the actor is computed once."""
        mean, std = (one[:, None] for one in actor_output(self.actor, obs, None, {}))
        return SquashedNormal(mean, std).with_log_prob(noise.reshape(len(mean), repeats, -1))

    def _sample_many_of_forward(
        self, obs: object, noise: torch.Tensor, repeats: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return self.sample(_repeated(obs, repeats), noise)

    def calc_actor_loss(self, obs: object, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the loss of the actor, as of SAC, and log-probabilities ``[B, 1]``; see :meth:`actor_pred`."""
        act, log_prob = self.actor_pred(obs, noise)
        q1_B, q2_B = self._values(obs, act)
        return -soft_value(q1_B, q2_B, log_prob.flatten(), self.temperature.value).mean(), log_prob

    def calc_imitation_loss(
        self, obs: object, act_data: torch.Tensor, noise: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        r"""Return the loss of an actor that imitates, and log-probabilities ``[B, 1]``; see :meth:`actor_pred`.

        .. math:: \frac1B \sum \alpha \log\pi(a \mid s) - \log\pi(\hat a \mid s), \quad a \sim \pi

        :param obs: observations.
        :param act_data: the actions of the data, ``[B, ...]``.
        """
        dist, log_prob_B = self._dist_and_log_prob(obs, noise)
        loss_B = self.temperature.value * log_prob_B - dist.log_prob(act_data.flatten(1).to(log_prob_B.dtype))
        return loss_B.mean(), log_prob_B[:, None]

    @instead_of_forward(lambda result: (result.dist, result.log_prob.flatten()))
    def _dist_and_log_prob(self, obs: object, noise: torch.Tensor) -> tuple[SquashedNormal, torch.Tensor]:
        """Return the distribution of actions, and log-probabilities of random ones, ``[B]``."""
        dist = SquashedNormal(*actor_output(self.actor, obs, None, {}))
        return dist, dist.with_log_prob(noise)[1]

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

    def calc_random_values(self, obs: object, act: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return values of uniform actions less their log-probability, by each critic, ``[N, 1]``.

        :param obs: observations, ``[N, ...]``.
        :param act: the actions, ``[N, ...]``.
        """
        log_prob = -math.prod(self._act_shape) * math.log(self.max_action - self.min_action)
        q1_N, q2_N = self._values(obs, act)
        return q1_N[:, None] - log_prob, q2_N[:, None] - log_prob

    def calc_pi_values(
        self, obs_pi: Any, obs_to_pred: Any, noise: torch.Tensor, lowest_N: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return values of the policy's actions less their log-probabilities, by each critic, ``[N, 1]``.

        :param obs_pi: the observations at which the policy acts: as many as ``obs_to_pred``, or fewer with several
            actions each.
        :param obs_to_pred: the observations at which the actions are rated, ``[N, ...]``.
        :param noise: see :meth:`actor_pred`.
        :param lowest_N: the least values (arXiv:2303.05479, equation 5.1); None for no bound.
        """
        with torch.no_grad():
            act, log_prob = self.actor_pred(obs_pi, noise, repeats=len(obs_to_pred) // len(obs_pi))
        q1_N, q2_N = self._values(obs_to_pred, act)
        if lowest_N is not None:
            q1_N, q2_N = torch.maximum(q1_N, lowest_N), torch.maximum(q2_N, lowest_N)
        return q1_N[:, None] - log_prob, q2_N[:, None] - log_prob

    def _values(self, obs: object, act: torch.Tensor, *critics: nn.Module) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the values of actions by two critics, the trained ones by default, ``[N]`` each."""
        first, second = critics or (self.critic, self.critic2)
        return q_values(first, obs, act), q_values(second, obs, act)

    # -- calibration ---------------------------------------------------------------------------------------------------

    def process_buffer(self, buffer: ReplayBuffer) -> ReplayBuffer:
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
        """Add sums of rewards and what follows them; see :meth:`ReplayLearner.process_fn`. If the policy is calibrated,
        rows that were added after :meth:`process_buffer` get their return, or no bound while their episode is running.

        :raises ValueError: if the policy is calibrated, and no row has a return to calibrate by.
        """
        if self.calibrated:
            if _CALIBRATION not in batch:
                raise ValueError(
                    "calibrated=True needs the returns of the rows, which policy.process_buffer(buffer) adds and "
                    "trainers do for their buffer at construction; give calibrated=False for rows that are collected"
                )
            is_new = ~to_numpy(batch.get(_IS_CALIBRATED, np.ones(len(indices), bool)))
            if is_new.any():
                batch[_CALIBRATION] = returns = to_numpy(batch[_CALIBRATION])
                returns[is_new] = self._lowest_values(buffer, indices[is_new])
        return super().process_fn(batch, buffer, indices)

    def _lowest_values(self, buffer: ReplayBuffer, rows: Index) -> NDArray[Any]:
        """Return the return from each row to the end of its episode, and minus infinity in a running episode."""
        returns, _, last = buffer.nstep(rows, len(buffer), self.gamma)
        is_over = buffer.get(last, "terminated") | buffer.get(last, "truncated")
        return np.where(is_over, returns, -np.inf)

    def inputs(self, obs: object) -> Any:
        """Return observations as tensors."""
        return to_torch(obs, device=self._device)


def _repeated(rows: Any, repeats: int) -> Any:
    """Return rows with copies of each after it, ``[B * repeats, ...]``.

    :param rows: a tensor, or a ``Batch`` of tensors, ``[B, ...]``.
    """
    device = rows.device if isinstance(rows, torch.Tensor) else None
    return rows[torch.arange(len(rows), device=device).repeat_interleave(repeats)]
