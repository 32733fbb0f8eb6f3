from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

import gymnasium as gym
import torch
from torch import nn

from rlfast.data.stats import SequenceSummaryStats
from rlfast.functional.losses import policy_gradient_loss, value_loss
from rlfast.policy.base import TLearningRateScheduler, TrainingStats
from rlfast.policy.components.distributions import log_prob_of
from rlfast.policy.learners.rollout_learner import RolloutLearner, TDistFn, TDistribution
from rlfast.policy.modelfree.pg import PGPolicy
from rlfast.utils.arguments.validation import FiniteFloat, NonNegativeFloat, PositiveInt, UnitFloat, validate_arguments
from rlfast.utils.optim import OptimizerFactory, descend


@dataclass(kw_only=True)
class A2CTrainingStats(TrainingStats):
    """The statistics of the gradient steps on one roll-out: losses before their steps."""

    loss: SequenceSummaryStats
    actor_loss: SequenceSummaryStats
    vf_loss: SequenceSummaryStats
    ent_loss: SequenceSummaryStats
    """The entropy itself."""


TA2CTrainingStats = TypeVar("TA2CTrainingStats", bound=A2CTrainingStats)


@PGPolicy.register
class A2CPolicy(RolloutLearner):
    r"""Advantage actor-critic, its environments stepped together (Mnih et al., arXiv:1602.01783).

    .. math::
        L = -\frac1B \sum \log \pi(a \mid s)\, A + c_v \frac1B \sum \bigl(V(s) - G\bigr)^2
        - c_e \frac1B \sum \mathcal H\bigl(\pi(\cdot \mid s)\bigr)

    (section 4 and algorithm S3.) Advantages are estimated by :func:`rlfast.functional.gae`; the paper's, of as many
    steps as a roll-out has, are those of ``gae_lambda=1``.

    If a subclass or an assignment replaces :meth:`forward` or ``_compute_returns(batch, buffer, indices)``, or there
    are hooks, learning calls these methods.

    :param actor: called as ``actor(obs, state=..., info=...)``; returns the arguments of ``dist_fn`` (a tuple of
        several, or one tensor), and the next hidden state.
    :param critic: called as ``critic(obs)``; returns values ``[B, 1]``.
    :param optim: an optimizer of both, or a factory such as :func:`rlfast.utils.optim.adam`, called with their
        parameters; None for a policy that only acts.
    :param dist_fn: a function that makes the distribution over actions; see :class:`PPOPolicy`.
    :param action_space: action space of one environment.
    :param vf_coef: weight of the critic's loss, :math:`c_v`. Default: 0.5.
    :param ent_coef: weight of the entropy, :math:`c_e`. Default: 0.01.
    :param max_grad_norm: largest Euclidean norm of the gradient of all parameters of ``optim``; 0 or None for no limit.
        Default: None.
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
    :param compile: whether a gradient step is compiled into one graph; see :class:`DQNPolicy`. Default: False.
    :raises ValueError: for a value out of range, or scaling to a Box without finite bounds.

    >>> from rlfast.data import Batch
    >>> from rlfast.utils.net.common import Net
    >>> from rlfast.utils.net.discrete import Actor, Critic
    >>> from rlfast.utils.optim import adam
    >>> nets = {"actor": Actor(Net(4, hidden_sizes=[64]), 2), "critic": Critic(Net(4, hidden_sizes=[64]))}
    >>> how = {"optim": adam(7e-4), "dist_fn": torch.distributions.Categorical, "action_scaling": False}
    >>> policy = A2CPolicy(**nets, **how, action_space=gym.spaces.Discrete(2))
    >>> policy(Batch(obs=torch.zeros(5, 4), info={})).act.shape
    torch.Size([5])
    """

    stats_class = A2CTrainingStats
    columns: ClassVar[tuple[str, ...]] = ("act", "adv", "returns")

    @validate_arguments
    def __init__(
        self,
        *,
        actor: nn.Module,
        critic: nn.Module,
        optim: torch.optim.Optimizer | OptimizerFactory | None,
        dist_fn: TDistFn,
        action_space: gym.Space[Any],
        vf_coef: FiniteFloat = 0.5,
        ent_coef: FiniteFloat = 0.01,
        max_grad_norm: NonNegativeFloat | None = None,
        gae_lambda: UnitFloat = 0.95,
        max_batchsize: PositiveInt = 256,
        discount_factor: UnitFloat = 0.99,
        reward_normalization: bool = False,
        deterministic_eval: bool = False,
        observation_space: gym.Space[Any] | None = None,
        action_scaling: bool = True,
        action_bound_method: Literal["clip", "tanh"] | None = "clip",
        lr_scheduler: TLearningRateScheduler | None = None,
        compile: bool = False,
    ) -> None:
        super().__init__(
            actor=actor,
            critic=critic,
            optim=optim,
            dist_fn=dist_fn,
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
        self.vf_coef, self.ent_coef, self.max_grad_norm = vf_coef, ent_coef, max_grad_norm
        self.compile_update(compile, actor, critic)

    def gradient_step(self, distribution: TDistribution, obs: Any, *columns: torch.Tensor) -> dict[str, torch.Tensor]:
        """Do one gradient step on the loss of a minibatch."""
        dist = distribution()
        act, adv_B, returns_B = columns
        actor_loss = policy_gradient_loss(log_prob_of(dist, act), adv_B)
        vf_loss = value_loss(self.critic(obs).flatten(), returns_B)
        ent_loss = dist.entropy().mean()
        loss = actor_loss + self.vf_coef * vf_loss - self.ent_coef * ent_loss
        descend(loss, self.optim, self.max_grad_norm)
        losses = {"loss": loss, "actor_loss": actor_loss, "vf_loss": vf_loss, "ent_loss": ent_loss}
        return {name: value.detach() for name, value in losses.items()}
