from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import gymnasium as gym
import torch
from torch import nn

from rlfast.data.stats import SequenceSummaryStats
from rlfast.functional.losses import policy_gradient_loss
from rlfast.policy.base import TLearningRateScheduler, TrainingStats
from rlfast.policy.components.distributions import log_prob_of
from rlfast.policy.learners.natural_gradient_learner import NaturalGradientLearner
from rlfast.policy.learners.rollout_learner import TDistFn, TDistribution
from rlfast.policy.modelfree.a2c import A2CPolicy
from rlfast.utils.arguments.validation import FiniteFloat, PositiveInt, UnitFloat, validate_arguments
from rlfast.utils.optim import OptimizerFactory


@dataclass(kw_only=True)
class NPGTrainingStats(TrainingStats):
    """What the steps on one roll-out tell."""

    actor_loss: SequenceSummaryStats
    """Before each step."""
    vf_loss: SequenceSummaryStats
    """Before the last of the critic's steps on each minibatch."""
    kl: SequenceSummaryStats
    """How far each step changed the distribution over actions."""


TNPGTrainingStats = TypeVar("TNPGTrainingStats", bound=NPGTrainingStats)


@A2CPolicy.register
class NPGPolicy(NaturalGradientLearner):
    r"""Natural policy gradient (Kakade 2001, *A natural policy gradient*).

    .. math::
        \theta \leftarrow \theta + \alpha F^{-1} \nabla_\theta \frac1B \sum \log \pi_\theta(a \mid s)\, A

    (section 3; F is the Fisher matrix of the distribution over actions, and its inverse is found by conjugate
    gradients.) Advantages are estimated by :func:`rlfast.functional.gae`. On each minibatch the critic takes several
    steps down the mean squared error of its values.

    If a subclass or an assignment replaces :meth:`forward` or ``_compute_returns(batch, buffer, indices)``, or there
    are hooks, learning calls these methods.

    :param actor: called as ``actor(obs, state=..., info=...)``; returns the arguments of ``dist_fn`` (a tuple of
        several, or one tensor), and the next hidden state.
    :param critic: called as ``critic(obs)``; returns values ``[B, 1]``.
    :param optim: optimizes the critic: an optimizer, or a factory such as :func:`rlfast.utils.optim.adam`, called with
        those of its parameters that the actor does not have; None for a policy that only acts.
    :param dist_fn: a function that makes the distribution over actions; see :class:`PPOPolicy`.
        ``torch.distributions.kl_divergence`` must support it; it supports those of torch and :mod:`rlfast.functional`.
    :param action_space: action space of one environment.
    :param optim_critic_iters: gradient steps of the critic on each minibatch. Default: 5.
    :param actor_step_size: size of the actor's steps, :math:`\alpha`. Default: 0.5.
    :param advantage_normalization: whether advantages have mean 0 and deviation 1 in each roll-out. Default: True.
    :param gae_lambda: 0 for one-step, 1 for Monte Carlo advantages. Default: 0.95.
    :param max_batchsize: the largest batch of the networks while a roll-out is prepared. Default: 256.
    :param discount_factor: discount of future rewards, :math:`\gamma`, in [0, 1]. Default: 0.99.
    :param reward_normalization: whether returns are divided by their running standard deviation, so that values are of
        the order of 1. Default: False.
    :param deterministic_eval: whether the policy takes the mode in evaluation mode. Default: False.
    :param observation_space: observation space of one environment. It is kept, but not used. Default: None.
    :param action_scaling: whether actions are stretched to the bounds of a Box; no effect on other spaces. Default:
        True.
    :param action_bound_method: how actions are bounded to [-1, 1] before that: ``"clip"`` (default), ``"tanh"``, or
        None.
    :param lr_scheduler: a schedule that takes a step after each update. Default: None.
    :raises ValueError: for a value out of range, or scaling to a Box without finite bounds.

    >>> from rlfast.utils.net.common import Net
    >>> from rlfast.utils.net.discrete import Actor, Critic
    >>> from rlfast.utils.optim import adam
    >>> nets = {"actor": Actor(Net(4, hidden_sizes=[64]), 2), "critic": Critic(Net(4, hidden_sizes=[64]))}
    >>> how = {"optim": adam(1e-3), "dist_fn": torch.distributions.Categorical, "action_scaling": False}
    >>> policy = NPGPolicy(**nets, **how, action_space=gym.spaces.Discrete(2))
    >>> sum(len(group["params"]) for group in policy.optim.param_groups)  # the critic's
    4
    """

    stats_class = NPGTrainingStats

    @validate_arguments
    def __init__(
        self,
        *,
        actor: nn.Module,
        critic: nn.Module,
        optim: torch.optim.Optimizer | OptimizerFactory | None,
        dist_fn: TDistFn,
        action_space: gym.Space[Any],
        optim_critic_iters: PositiveInt = 5,
        actor_step_size: FiniteFloat = 0.5,
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
        self.actor_step_size = actor_step_size

    def actor_step(self, distribution: TDistribution, *columns: torch.Tensor) -> dict[str, torch.Tensor]:
        """Take one step of a fixed size."""
        act, adv_B = columns
        step = self.natural_step(distribution, lambda dist: policy_gradient_loss(log_prob_of(dist, act), adv_B))
        kl, _ = step.take(self.actor_step_size)
        return {"actor_loss": step.loss, "kl": kl}
