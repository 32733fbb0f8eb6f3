from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

import gymnasium as gym
import torch
from torch import nn

from rlfast.data.stats import SequenceSummaryStats
from rlfast.functional.losses import surrogate_loss
from rlfast.policy.base import TLearningRateScheduler
from rlfast.policy.components.distributions import log_prob_of
from rlfast.policy.learners.natural_gradient_learner import NaturalGradientLearner
from rlfast.policy.learners.rollout_learner import TDistFn, TDistribution
from rlfast.policy.modelfree.npg import NPGPolicy, NPGTrainingStats
from rlfast.utils.arguments.validation import FiniteFloat, PositiveFloat, PositiveInt, UnitFloat, validate_arguments
from rlfast.utils.optim import OptimizerFactory


@dataclass(kw_only=True)
class TRPOTrainingStats(NPGTrainingStats):
    """What the steps on one roll-out tell."""

    step_size: SequenceSummaryStats
    """What the line search found; 0 where it found nothing better, and the actor stayed as it was."""


TTRPOTrainingStats = TypeVar("TTRPOTrainingStats", bound=TRPOTrainingStats)


@NPGPolicy.register
class TRPOPolicy(NaturalGradientLearner):
    r"""Trust region policy optimization (Schulman et al., arXiv:1502.05477).

    .. math::
        \min_\theta L(\theta) = -\frac1B \sum \frac{\pi_\theta(a \mid s)}{\pi_{\mathrm{old}}(a \mid s)} A
        \quad \text{subject to} \quad
        \frac1B \sum D_{\mathrm{KL}}\bigl(\pi_{\mathrm{old}} \,\|\, \pi_\theta\bigr) \le \delta

    (equation 14.) The step along the natural gradient s starts with the size :math:`\sqrt{2\delta / s^T F s}` and
    shrinks until the loss falls and the constraint holds (appendix C); where it never does, the actor stays as it was.
    Advantages are estimated by :func:`rlfast.functional.gae`. On each minibatch the critic takes several steps down
    the mean squared error of its values.

    If a subclass or an assignment replaces :meth:`forward` or ``_compute_returns(batch, buffer, indices)``, or there
    are hooks, learning calls these methods.

    :param actor: called as ``actor(obs, state=..., info=...)``; returns the arguments of ``dist_fn`` (a tuple of
        several, or one tensor), and the next hidden state.
    :param critic: called as ``critic(obs)``; returns values ``[B, 1]``.
    :param optim: optimizes the critic; see :class:`NPGPolicy`.
    :param dist_fn: a function that makes the distribution over actions; see :class:`NPGPolicy`.
    :param action_space: action space of one environment.
    :param max_kl: largest divergence of the new policy from the old one, :math:`\delta`. Default: 0.01.
    :param backtrack_coeff: by which the step shrinks. Default: 0.8.
    :param max_backtracks: most sizes that are tried. Default: 10.
    :param optim_critic_iters: gradient steps of the critic on each minibatch. Default: 5.
    :param actor_step_size: has no effect, as in Tianshou 1.0: the line search finds the size. Default: 0.5.
    :param advantage_normalization: whether advantages have mean 0 and deviation 1 in each roll-out. Default: True.
    :param gae_lambda: 0 for one-step, 1 for Monte Carlo advantages. Default: 0.95.
    :param max_batchsize: the largest batch of the networks while a roll-out is prepared. Default: 256.
    :param discount_factor: discount of future rewards, :math:`\gamma`, in [0, 1]. Default: 0.99.
    :param reward_normalization: whether returns are divided by their running standard deviation. Default: False.
    :param deterministic_eval: whether the policy takes the mode in evaluation mode. Default: False.
    :param observation_space: observation space of one environment. It is kept, but not used. Default: None.
    :param action_scaling: whether actions are stretched to the bounds of a Box; no effect on other spaces. Default:
        True.
    :param action_bound_method: how actions are bounded to [-1, 1] before that: ``"clip"`` (default), ``"tanh"``, or
        None.
    :param lr_scheduler: a schedule that takes a step after each update. Default: None.
    :raises ValueError: for a value out of range, or scaling to a Box without finite bounds.
    """

    stats_class = TRPOTrainingStats
    columns: ClassVar[tuple[str, ...]] = ("act", "logp_old", "adv", "returns")

    @validate_arguments
    def __init__(
        self,
        *,
        actor: nn.Module,
        critic: nn.Module,
        optim: torch.optim.Optimizer | OptimizerFactory | None,
        dist_fn: TDistFn,
        action_space: gym.Space[Any],
        max_kl: PositiveFloat = 0.01,
        backtrack_coeff: UnitFloat = 0.8,
        max_backtracks: PositiveInt = 10,
        optim_critic_iters: PositiveInt = 5,
        actor_step_size: FiniteFloat = 0.5,  # noqa: ARG002 (Tianshou's signature)
        advantage_normalization: bool = True,
        gae_lambda: UnitFloat = 0.95,
        max_batchsize: PositiveInt = 256,
        discount_factor: UnitFloat = 0.99,
        reward_normalization: bool = False,
        deterministic_eval: bool = False,
        observation_space: gym.Space[Any] | None = None,
        action_scaling: bool = True,
        action_bound_method: Literal["clip", "tanh"] | None = "clip",
        lr_scheduler: TLearningRateScheduler | None = None,
    ) -> None:
        super().__init__(
            actor=actor,
            critic=critic,
            optim=optim,
            dist_fn=dist_fn,
            optim_critic_iters=optim_critic_iters,
            advantage_normalization=advantage_normalization,
            gamma=discount_factor,
            gae_lambda=gae_lambda,
            max_batchsize=max_batchsize,
            reward_normalization=reward_normalization,
            deterministic_eval=deterministic_eval,
            action_space=action_space,
            observation_space=observation_space,
            action_scaling=action_scaling,
            action_bound_method=action_bound_method,
            lr_scheduler=lr_scheduler,
        )
        self.max_kl, self.backtrack_coeff, self.max_backtracks = max_kl, backtrack_coeff, max_backtracks

    def actor_step(self, distribution: TDistribution, *columns: torch.Tensor) -> dict[str, torch.Tensor]:
        """Take the longest step that is found within the trust region."""
        act, logp_old_B, adv_B = columns
        step = self.natural_step(distribution, lambda dist: surrogate_loss(log_prob_of(dist, act), logp_old_B, adv_B))
        curvature = step.direction.dot(step.fisher_product(step.direction))
        size = (2 * self.max_kl / curvature).sqrt()
        for _ in range(self.max_backtracks if curvature > 0 else 0):
            kl, loss = step.take(size)
            if kl < self.max_kl and loss < step.loss:
                break
            size = size * self.backtrack_coeff
        else:
            size = torch.zeros_like(size)
            kl, _ = step.take(size)
        return {"actor_loss": step.loss, "kl": kl, "step_size": size}
