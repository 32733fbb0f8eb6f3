from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import gymnasium as gym
import torch
from gymnasium.spaces import Box
from torch import nn

from rlfast.exploration import BaseNoise
from rlfast.functional.losses import soft_value, squared_loss
from rlfast.functional.offline import conservative_gap
from rlfast.policy.base import TLearningRateScheduler
from rlfast.policy.components.temperature import Alpha
from rlfast.policy.learners.continuous.conservative_learner import ConservativeLearner
from rlfast.policy.learners.replay_learner import Losses, Sample
from rlfast.policy.modelfree.sac import SACPolicy, SACTrainingStats
from rlfast.utils.arguments.validation import (
    FiniteFloat,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    UnitFloat,
    validate_arguments,
)
from rlfast.utils.optim import OptionalOptimizer, descend


@dataclass(kw_only=True)
class CQLTrainingStats(SACTrainingStats):
    """The statistics of one update of CQL: losses before their steps, and the temperature after its own."""

    cql_alpha: float | None = None
    """The multiplier of the penalty in this update; None without one."""
    cql_alpha_loss: float | None = None


TCQLTrainingStats = TypeVar("TCQLTrainingStats", bound=CQLTrainingStats)


@SACPolicy.register
class CQLPolicy(ConservativeLearner):
    r"""Conservative Q-learning, from fixed data (Kumar et al., arXiv:2006.04779, with importance sampling, appendix F).

    Actor, targets and temperature are those of :class:`SACPolicy`; the loss of a critic is

    .. math::
        \frac1B \sum (y - Q(s, a))^2 + \alpha' \Bigl( w \frac1B \sum \bigl( T \log \sum_{i \le 3n} e^{(Q(s, a_i) - \log
            p(a_i)) / T} - Q(s, a) \bigr) - \tau \Bigr)

    over n uniform actions, n of the policy at s and n of it at the next observation. With ``with_lagrange``,
    :math:`\alpha'` rises while the penalty is above :math:`\tau` (equation 30). If ``calibrated``, values of the
    policy's actions count as at least the return of the data from s on (Cal-QL, arXiv:2303.05479, equation 5.1).

    :param actor: returns means and standard deviations before squashing; see :class:`SACPolicy`.
    :param cql_alpha_lr: step size of Adam for :math:`\log \alpha'`. Default: 1e-4.
    :param cql_weight: weight of the penalty, w. Default: 1.
    :param temperature: T, above 0; ``alpha`` is the temperature of soft actor-critic. Default: 1.
    :param with_lagrange: whether there are :math:`\alpha'` and :math:`\tau`, or 1 and 0. Default: True.
    :param lagrange_threshold: penalty above which its weight rises, :math:`\tau`. Default: 10.
    :param min_action: lower bound of uniform actions. Default: -1.
    :param max_action: upper bound of uniform actions. Default: 1.
    :param num_repeat_actions: number of actions of each kind in the penalty, n. Default: 10.
    :param alpha_min: lower bound of :math:`\alpha'`. Default: 0.
    :param alpha_max: upper bound of :math:`\alpha'`. Default: 1e6.
    :param clip_grad: largest norm of each critic's gradient; 0 for no limit. Default: 1.
    :param backup_entropy: whether targets contain the entropy of the policy, as those of soft actor-critic do. Where
        the penalty makes values steep, a learned ``alpha`` grows, and values drift away by its entropy. Default: True.
    :param imitation_steps: number of first gradient steps in which the actor does not raise values, but the likelihood
        of the data's actions; its loss is :meth:`calc_imitation_loss`, of the authors' code. Default: 0.
    :param calibrated: see above. It needs ``process_buffer``, which :class:`OfflineTrainer` calls. Default: True.
    :param device: has no effect: the device is that of the networks.
    :param compile: whether a whole update is compiled into one graph; see :class:`DQNPolicy`. Default: False.
    :param critic: as in :class:`SACPolicy`.
    :param critic_optim: as in :class:`SACPolicy`.
    :param critic2: as in :class:`SACPolicy`.
    :param critic2_optim: as in :class:`SACPolicy`.
    :param alpha: as in :class:`SACPolicy`.
    :param deterministic_eval: as in :class:`SACPolicy`.
    :raises ValueError: see :class:`SACPolicy`; or bounds are in the wrong order.
    """

    stats_class = CQLTrainingStats

    @validate_arguments
    def __init__(
        self,
        *,
        actor: nn.Module,
        actor_optim: OptionalOptimizer,
        critic: nn.Module,
        critic_optim: OptionalOptimizer,
        action_space: "Box[Any]",
        critic2: nn.Module | None = None,
        critic2_optim: OptionalOptimizer = None,
        cql_alpha_lr: NonNegativeFloat = 1e-4,
        cql_weight: NonNegativeFloat = 1.0,
        tau: UnitFloat = 0.005,
        gamma: UnitFloat = 0.99,
        alpha: float | tuple[float, torch.Tensor, torch.optim.Optimizer] | Alpha = 0.2,
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
        estimation_step: PositiveInt = 1,
        exploration_noise: BaseNoise | Literal["default"] | None = None,
        deterministic_eval: bool = True,
        action_scaling: bool = True,
        action_bound_method: Literal["clip"] | None = "clip",
        observation_space: gym.Space[Any] | None = None,
        lr_scheduler: TLearningRateScheduler | None = None,
        compile: bool = False,
    ) -> None:
        if not (min_action < max_action and alpha_min <= alpha_max):
            raise ValueError(f"bounds must rise, got {min_action}, {max_action} of actions, {alpha_min}, {alpha_max}")
        super().__init__(
            actor=actor,
            actor_optim=actor_optim,
            tau=tau,
            gamma=gamma,
            estimation_step=estimation_step,
            exploration_noise=exploration_noise,
            action_space=action_space,
            observation_space=observation_space,
            action_scaling=action_scaling,
            action_bound_method=action_bound_method,
            lr_scheduler=lr_scheduler,
        )
        self.add_critics(critic, critic_optim, critic2, critic2_optim)
        self.set_temperature(alpha)
        self.deterministic_eval, self.device = deterministic_eval, device
        self.cql_temperature, self.cql_weight, self.clip_grad = temperature, cql_weight, clip_grad
        self.with_lagrange, self.lagrange_threshold = with_lagrange, lagrange_threshold
        self.cql_log_alpha = nn.Parameter(torch.zeros(1, device=self._device))
        self.cql_alpha_optim = torch.optim.Adam([self.cql_log_alpha], lr=cql_alpha_lr)
        self.min_action, self.max_action, self.num_repeat_actions = min_action, max_action, num_repeat_actions
        self.alpha_min, self.alpha_max, self.calibrated = alpha_min, alpha_max, calibrated
        self.backup_entropy, self.imitation_steps = backup_entropy, imitation_steps
        self.extra_names = ("calibration_returns",) if calibrated else ()
        self.compile_update(compile, actor, critic, self.critic2)

    def gradient_step(self, sample: Sample) -> tuple[Losses, torch.Tensor]:
        """Do one step for the actor, the temperature, the multiplier, each critic and the target critics."""
        noise, noise_next, *draws = sample.draws or self.draw_step(len(sample.act))
        if sample.is_due:
            actor_loss, log_prob = self.calc_imitation_loss(sample.obs, sample.act, noise)
        else:
            actor_loss, log_prob = self.calc_actor_loss(sample.obs, noise)
        descend(actor_loss, self.actor_optim)
        losses = {"actor_loss": actor_loss.detach(), **self.adapt_temperature(log_prob.flatten())}
        losses["alpha"] = self.temperature.value.reshape(())
        with torch.no_grad():
            act, log_prob = self.actor_pred(sample.obs_next, noise_next)
            q1_B, q2_B = self.critic_values(sample.obs_next, act, old=True)
            alpha = self.temperature.value if self.backup_entropy else 0.0
            returns = self.returns_of(sample, soft_value(q1_B, q2_B, log_prob.flatten(), alpha))
        q_B = self.critic_values(sample.obs, sample.act)
        sampled_BN = self.sampled_values(sample, *draws)
        pairs = zip(sampled_BN, q_B, strict=True)
        gaps = [self.cql_weight * conservative_gap(*pair, self.cql_temperature) for pair in pairs]
        if self.with_lagrange:
            multiplier = self.cql_log_alpha.exp().clamp(self.alpha_min, self.alpha_max).squeeze()
            excess = [gap - self.lagrange_threshold for gap in gaps]
            alpha_loss = -multiplier * (excess[0] + excess[1]).detach() / 2
            gaps = [multiplier.detach() * one for one in excess]
            descend(alpha_loss, self.cql_alpha_optim)
            losses |= {"cql_alpha": multiplier.detach(), "cql_alpha_loss": alpha_loss.detach()}
        errors = [returns - q for q in q_B]
        for number, (error_B, gap) in enumerate(zip(errors, gaps, strict=True)):
            loss = squared_loss(error_B, sample.weight) + gap
            descend(loss, self.critic2_optim if number else self.critic_optim, self.clip_grad)
            losses[f"critic{number + 1}_loss"] = loss.detach()
        self.sync_weight()
        return losses, ((errors[0] + errors[1]) / 2).detach()
