from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import gymnasium as gym
import torch
from gymnasium.spaces import Discrete
from torch import nn

from rlfast.functional.losses import policy_gradient_loss
from rlfast.functional.offline import conservative_gap, regression_weight
from rlfast.policy.base import TLearningRateScheduler
from rlfast.policy.components.network_checks import check_networks, check_output
from rlfast.policy.learners.discrete.categorical_actor import CategoricalActor
from rlfast.policy.learners.discrete.q_learner import output_of_actions
from rlfast.policy.learners.replay_learner import Losses, Sample
from rlfast.policy.modelfree.pg import PGPolicy, PGTrainingStats
from rlfast.utils.arguments.validation import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    UnitFloat,
    validate_arguments,
)
from rlfast.utils.optim import OptimizerFactory, descend, make_optimizer
from rlfast.utils.warning import warn_user


@dataclass(kw_only=True)
class DiscreteCRRTrainingStats(PGTrainingStats):
    """The statistics of one gradient step of discrete CRR: losses before the step."""

    loss: float  # type: ignore[assignment]  # one step has one loss
    actor_loss: float
    critic_loss: float
    cql_loss: float
    """How far the values of all actions exceed those of the data."""


TDiscreteCRRTrainingStats = TypeVar("TDiscreteCRRTrainingStats", bound=DiscreteCRRTrainingStats)


@PGPolicy.register
class DiscreteCRRPolicy(CategoricalActor):
    r"""Critic regularized regression, from fixed data with discrete actions (Wang et al., arXiv:2006.15134).

    .. math::
        y &= r + \gamma \sum_a \pi^-(a \mid s')\, Q^-(s', a), \qquad
            A = Q(s, \hat a) - \sum_a \pi(a \mid s)\, Q(s, a) \\
        L &= -\frac1B \sum f(A) \log \pi(\hat a \mid s) + \frac1{2B} \sum \bigl(y - Q(s, \hat a)\bigr)^2
            + w \frac1B \sum \Bigl( \log \sum_a e^{Q(s, a)} - Q(s, \hat a) \Bigr)

    with f of :func:`rlfast.functional.offline.regression_weight`; the last term is that of :class:`DiscreteCQLPolicy`.

    :param actor: called as ``actor(obs, state=..., info=...)``; returns unnormalized log-probabilities ``[B, actions]``
        and the next hidden state.
    :param critic: called as ``critic(obs)``; returns action values ``[B, actions]``.
    :param optim: an optimizer of both networks, a factory such as :func:`rlfast.utils.optim.adam`, or None for a policy
        that only acts.
    :param action_space: action space of one environment, a Discrete.
    :param discount_factor: discount of future rewards, in [0, 1]. Default: 0.99.
    :param policy_improvement_mode: f: ``"exp"`` (default), ``"binary"``, or ``"all"`` for imitation.
    :param ratio_upper_bound: the largest exponential weight, above 0. Default: 20.
    :param beta: the divisor of advantages in their exponential weight, above 0. Default: 1.
    :param min_q_weight: w, 0 or more. Default: 10.
    :param target_update_freq: number of gradient steps between copies to the target networks; 0 for none. Default: 0.
    :param reward_normalization: has no effect; True causes a warning. Default: False.
    :param observation_space: observation space of one environment. It is kept, but not used. Default: None.
    :param lr_scheduler: a schedule that takes a step after each update. Default: None.
    :param deterministic_eval: whether the policy takes the likeliest action in evaluation mode. Default: False.
    :param compile: whether a whole update is compiled into one graph; see :class:`DQNPolicy`. Default: False.
    :raises ValueError: for a value out of range, or another kind of action space.
    """

    stats_class = DiscreteCRRTrainingStats
    learns_log_probs = True
    lagged_names = ("actor", "critic")
    tau = 1.0
    due_first = False

    @validate_arguments
    def __init__(
        self,
        *,
        actor: nn.Module,
        critic: nn.Module,
        optim: torch.optim.Optimizer | OptimizerFactory | None,
        action_space: gym.Space[Any],
        discount_factor: UnitFloat = 0.99,
        policy_improvement_mode: Literal["exp", "binary", "all"] = "exp",
        ratio_upper_bound: PositiveFloat = 20.0,
        beta: PositiveFloat = 1.0,
        min_q_weight: NonNegativeFloat = 10.0,
        target_update_freq: NonNegativeInt = 0,
        reward_normalization: bool = False,
        observation_space: gym.Space[Any] | None = None,
        lr_scheduler: TLearningRateScheduler | None = None,
        deterministic_eval: bool = False,
        compile: bool = False,
    ) -> None:
        if not isinstance(action_space, Discrete):
            raise ValueError(f"DiscreteCRR needs a Discrete action space, got {action_space}")
        if policy_improvement_mode not in ("exp", "binary", "all"):
            raise ValueError(f'policy_improvement_mode must be "exp", "binary" or "all", got {policy_improvement_mode}')
        if reward_normalization:
            warn_user("reward_normalization has no effect: CRR learns from rewards themselves")
        check_networks(actor=actor, critic=critic)
        check_output(actor, action_space)
        super().__init__(
            gamma=discount_factor,
            n_step=1,
            action_space=action_space,
            action_bound_method=None,
            observation_space=observation_space,
            lr_scheduler=lr_scheduler,
        )
        self.actor, self.critic = actor, critic
        self.optim = make_optimizer(optim, nn.ModuleList([actor, critic]).parameters())
        self._freq = target_update_freq
        self._target = target_update_freq > 0
        self.actor_old = self.lagged_copy(actor) if self._target else actor
        self.critic_old = self.lagged_copy(critic) if self._target else critic
        self._policy_improvement_mode = policy_improvement_mode
        self._ratio_upper_bound, self._beta = ratio_upper_bound, beta
        self._min_q_weight = min_q_weight
        self.deterministic_eval = deterministic_eval
        self.compile_update(compile, actor, critic)

    @property
    def period(self) -> int:
        """The number of gradient steps between copies to the target networks."""
        return self._freq

    def next_value(self, obs_next: Any, state: Any = None, *draws: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
        """Return the expected value of the observation after the last reward, ``[B]``."""
        dist = self.choices(obs_next, state, network=self.actor_old)
        value_B: torch.Tensor = (self.critic_old(self.network_obs(obs_next)) * dist.probs).sum(dim=1)
        return value_B

    def gradient_step(self, sample: Sample) -> tuple[Losses, torch.Tensor]:
        """Do one gradient step on the loss, and then update the target networks if it is due."""
        q_BA: torch.Tensor = self.critic(self.network_obs(sample.obs))
        q_B, dist = output_of_actions(q_BA, sample.act), self.choices(sample.obs, sample.state, sample.batch)
        error_B = sample.returns - q_B
        weight_B = 1.0 if sample.weight is None else sample.weight
        critic_loss = 0.5 * (weight_B * error_B.square()).mean()
        with torch.no_grad():
            advantage_B = q_B - (q_BA * dist.probs).sum(dim=1)
            mode, bound = self._policy_improvement_mode, self._ratio_upper_bound
            regressed_B = regression_weight(advantage_B, mode, beta=self._beta, largest=bound)
        actor_loss = policy_gradient_loss(dist.log_prob(sample.act), regressed_B)  # equation 2
        cql_loss = conservative_gap(q_BA, q_B)
        loss = actor_loss + critic_loss + self._min_q_weight * cql_loss
        descend(loss, self.optim)
        if sample.is_due:
            self.sync_weight()
        losses = {"loss": loss, "actor_loss": actor_loss, "critic_loss": critic_loss, "cql_loss": cql_loss}
        return {name: value.detach() for name, value in losses.items()}, error_B.detach()
