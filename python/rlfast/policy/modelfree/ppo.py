from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import gymnasium as gym
import torch
from torch import nn

from rlfast.data.stats import SequenceSummaryStats
from rlfast.policy.base import TLearningRateScheduler, TrainingStats
from rlfast.policy.learners.clipped_learner import ClippedLearner
from rlfast.policy.learners.rollout_learner import TDistFn
from rlfast.policy.modelfree.a2c import A2CPolicy
from rlfast.utils.arguments.validation import FiniteFloat, NonNegativeFloat, PositiveInt, UnitFloat, validate_arguments
from rlfast.utils.optim import OptimizerFactory


@dataclass(kw_only=True)
class PPOTrainingStats(TrainingStats):
    """The statistics of the gradient steps on one roll-out: losses before their steps."""

    loss: SequenceSummaryStats
    clip_loss: SequenceSummaryStats
    vf_loss: SequenceSummaryStats
    ent_loss: SequenceSummaryStats
    """The entropy itself."""
    approx_kl: SequenceSummaryStats | None = None
    """How far the policy has moved from the one that acted: see :func:`rlfast.functional.losses.policy_change`."""
    clip_fraction: SequenceSummaryStats | None = None
    """The share of rows whose ratio of probabilities is beyond ``eps_clip``."""
    explained_variance: float | None = None
    """The share of the variance of returns that the critic explained before the update; NaN if returns are equal."""

    _non_loss_fields = (
        *TrainingStats._non_loss_fields,  # noqa: SLF001 (the base class's)
        "approx_kl",
        "clip_fraction",
        "explained_variance",
    )


TPPOTrainingStats = TypeVar("TPPOTrainingStats", bound=PPOTrainingStats)


@A2CPolicy.register
class PPOPolicy(ClippedLearner):
    r"""Proximal policy optimization (Schulman et al., arXiv:1707.06347).

    .. math::
        L = L^{\mathrm{clip}}(\pi) + c_v L^{V} - c_e \frac1B \sum \mathcal H\bigl(\pi(\cdot \mid s)\bigr)

    (equation 9), in ``repeat`` passes over a roll-out, whose advantages are estimated by :func:`rlfast.functional.gae`;
    see :func:`rlfast.functional.clipped_surrogate_loss` and :func:`rlfast.functional.value_loss` for the parts.

    If a subclass or an assignment replaces :meth:`forward` or ``_compute_returns(batch, buffer, indices)``, or there
    are hooks, learning calls these methods.

    :param actor: called as ``actor(obs, state=..., info=...)``; returns the arguments of ``dist_fn`` (a tuple of
        several, or one tensor), and the next hidden state.
    :param critic: called as ``critic(obs)``; returns values ``[B, 1]``.
    :param optim: an optimizer of both, or a factory such as :func:`rlfast.utils.optim.adam`, called with their
        parameters; None for a policy that only acts.
    :param dist_fn: a function that makes the distribution over actions, such as :class:`rlfast.functional.Categorical`
        of logits, ``torch.distributions.Categorical`` of probabilities, or :class:`rlfast.functional.DiagonalNormal`.
        Of the tuple that an actor may give it takes the elements; or, if it has one parameter only, the tuple.
    :param action_space: action space of one environment.
    :param eps_clip: :math:`\epsilon`, bound of the change of the ratio of probabilities. Default: 0.2.
    :param dual_clip: bound of the loss where the advantage is negative (arXiv:1912.09729), above 1; 0 or None
        for none. Default: None.
    :param value_clip: whether the critic's step is clipped by ``eps_clip``, too. Default: False.
    :param advantage_normalization: whether advantages have mean 0 and deviation 1 in each minibatch. Default: True.
    :param recompute_advantage: whether advantages are computed again before each pass (arXiv:2006.05990, section 3.5).
        Default: False.
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
    >>> how = {"optim": adam(3e-4), "dist_fn": torch.distributions.Categorical, "action_scaling": False}
    >>> policy = PPOPolicy(**nets, **how, action_space=gym.spaces.Discrete(2))
    >>> policy(Batch(obs=torch.zeros(5, 4), info={})).act.shape
    torch.Size([5])
    """

    stats_class = PPOTrainingStats

    @validate_arguments
    def __init__(
        self,
        *,
        actor: nn.Module,
        critic: nn.Module,
        optim: torch.optim.Optimizer | OptimizerFactory | None,
        dist_fn: TDistFn,
        action_space: gym.Space[Any],
        eps_clip: NonNegativeFloat = 0.2,
        dual_clip: FiniteFloat | None = None,
        value_clip: bool = False,
        advantage_normalization: bool = True,
        recompute_advantage: bool = False,
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
        self.set_clipping(eps_clip, dual_clip, value_clip=value_clip)
        self.norm_adv, self.recompute_adv = advantage_normalization, recompute_advantage
        self.vf_coef, self.ent_coef, self.max_grad_norm = vf_coef, ent_coef, max_grad_norm
        self.compile_update(compile, actor, critic)
