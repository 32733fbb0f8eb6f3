from dataclasses import dataclass
from typing import Literal, TypeVar, Unpack

import torch
from gymnasium.spaces import Discrete
from torch import nn

from rlfast.functional.distributions import Categorical
from rlfast.functional.losses import policy_gradient_loss
from rlfast.functional.offline import conservative_gap, regression_weight
from rlfast.policy.categorical import CategoricalLearner
from rlfast.policy.components.action_masks import action_mask, legal_logits
from rlfast.policy.components.network_checks import check_networks
from rlfast.policy.modelfree.pg import PGPolicy, PGTrainingStats
from rlfast.policy.q_learner import output_of_actions
from rlfast.policy.replay import Losses, ReplayOptions, Sample
from rlfast.utils.arguments.validation import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    UnitFloat,
    validate_arguments,
)
from rlfast.utils.optim import OptionalOptimizer, descend, make_optimizer
from rlfast.utils.warning import warn_user


@dataclass(kw_only=True)
class DiscreteCRRTrainingStats(PGTrainingStats):
    """The statistics of one gradient step of discrete CRR: the losses before the step."""

    loss: float  # type: ignore[assignment]  # one step has one loss
    actor_loss: float
    critic_loss: float
    cql_loss: float
    """How far the values of all actions exceed those of the data."""


TDiscreteCRRTrainingStats = TypeVar("TDiscreteCRRTrainingStats", bound=DiscreteCRRTrainingStats)


@PGPolicy.register
class DiscreteCRRPolicy(CategoricalLearner):
    r"""Critic regularized regression, from fixed data with discrete actions (Wang et al., arXiv:2006.15134).

    .. math::
        y &= r + \gamma \sum_a \pi^-(a \mid s')\, Q^-(s', a), \qquad
            A = Q(s, \hat a) - \sum_a \pi(a \mid s)\, Q(s, a) \\
        L &= -\frac1B \sum f(A) \log \pi(\hat a \mid s) + \frac1{2B} \sum \bigl(y - Q(s, \hat a)\bigr)^2
            + w \frac1B \sum \Bigl( \log \sum_a e^{Q(s, a)} - Q(s, \hat a) \Bigr)

    with f of :func:`rlfast.functional.offline.regression_weight`; the last term, that of
    :class:`DiscreteCQLPolicy`, is not in the paper: ``min_q_weight=0`` leaves it out. Squared errors are weighted as by
    a prioritized buffer.

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
    :param deterministic_eval: whether the policy takes the likeliest action in evaluation mode. Default: False.
    :param options: of :class:`rlfast.policy.BasePolicy`, and ``compile``; see :class:`DQNPolicy`.
    :raises ValueError: for a value out of range, or another kind of action space.
    """

    stats_class = DiscreteCRRTrainingStats
    learns_log_probs = True

    @validate_arguments
    def __init__(
        self,
        *,
        actor: nn.Module,
        critic: nn.Module,
        optim: OptionalOptimizer,
        action_space: Discrete,
        discount_factor: UnitFloat = 0.99,
        policy_improvement_mode: Literal["exp", "binary", "all"] = "exp",
        ratio_upper_bound: PositiveFloat = 20.0,
        beta: PositiveFloat = 1.0,
        min_q_weight: NonNegativeFloat = 10.0,
        target_update_freq: NonNegativeInt = 0,
        reward_normalization: bool = False,
        deterministic_eval: bool = False,
        **options: Unpack[ReplayOptions],
    ) -> None:
        if policy_improvement_mode not in ("exp", "binary", "all"):
            raise ValueError(f'policy_improvement_mode must be "exp", "binary" or "all", got {policy_improvement_mode}')
        if reward_normalization:
            warn_user("reward_normalization has no effect: CRR learns from rewards themselves")
        check_networks(critic=critic)
        super().__init__(
            actor=actor,
            action_space=action_space,
            gamma=discount_factor,
            n_step=1,
            deterministic_eval=deterministic_eval,
            **options,
        )
        self.critic = critic
        self.optim = make_optimizer(optim, nn.ModuleList([actor, critic]).parameters())
        self._freq = target_update_freq
        self._target = target_update_freq > 0
        self.actor_old, self.critic_old = actor, critic
        if self._target:
            self.add_targets("actor", "critic")
        self._policy_improvement_mode = policy_improvement_mode
        self._ratio_upper_bound, self._beta = ratio_upper_bound, beta
        self._min_q_weight = min_q_weight

    def is_due(self) -> bool:
        """Return whether the next gradient step ends with a copy to the target networks."""
        return self._target and self._iter % self._freq == self._freq - 1

    def next_value(self, obs_next: object, state: object = None, *draws: torch.Tensor) -> torch.Tensor:
        """Return the expected value of the observation after the last reward, ``[B]``, by the target networks."""
        logits = self.actor_old(obs_next, state=state, info={})[0]
        probs_BA = Categorical(legal_logits(logits, action_mask(obs_next))).probs
        value_B: torch.Tensor = (self.critic_old(obs_next) * probs_BA).sum(dim=1)
        return value_B

    def gradient_step(self, sample: Sample) -> tuple[Losses, torch.Tensor]:
        """Do one gradient step on the loss, and then update the target networks if it is due."""
        q_BA: torch.Tensor = self.critic(sample.obs)
        q_B, dist = output_of_actions(q_BA, sample.act), self.dist(sample.obs, sample.state, sample.batch)
        error_B = sample.returns - q_B
        critic_loss = 0.5 * (sample.weight * error_B.square()).mean()  # equation 1, of one value
        with torch.no_grad():
            advantage_B = q_B - (q_BA * dist.probs).sum(dim=1)
            mode, bound = self._policy_improvement_mode, self._ratio_upper_bound
            regressed_B = regression_weight(advantage_B, mode, beta=self._beta, largest=bound)
        actor_loss = policy_gradient_loss(dist.log_prob(sample.act), regressed_B)  # equation 2
        cql_loss = conservative_gap(legal_logits(q_BA, action_mask(sample.obs)), q_B)
        loss = actor_loss + critic_loss + self._min_q_weight * cql_loss
        descend(loss, self.optim)
        if sample.is_due:
            self.sync_weight()
        losses = {"loss": loss, "actor_loss": actor_loss, "critic_loss": critic_loss, "cql_loss": cql_loss}
        return {name: value.detach() for name, value in losses.items()}, error_B.detach()
