from dataclasses import dataclass
from typing import Any, Unpack, cast

import torch
from torch import nn

from rlfast.data.batch.batch import wrap
from rlfast.data.forms import Form
from rlfast.data.types import DistBatchProtocol, ObsBatchProtocol
from rlfast.functional.distributions import DiagonalNormal
from rlfast.functional.losses import policy_gradient_loss
from rlfast.functional.offline import expectile_loss, exponential_weight
from rlfast.policy.actor_critic import ActorCriticLearner, ExploringOptions
from rlfast.policy.base import TrainingStats
from rlfast.policy.components.batches import info_of
from rlfast.policy.components.network_checks import check_networks
from rlfast.policy.components.shortcuts import instead_of_forward
from rlfast.policy.critics import critic_step, q_values, twin_critics
from rlfast.policy.native.choosers import DRAWING_FACTS, Chooser
from rlfast.policy.native.continuous import NormalChooser
from rlfast.policy.replay import Losses, Sample
from rlfast.utils.arguments.validation import PositiveFloat, UnitFloat, validate_arguments
from rlfast.utils.optim import OptionalOptimizer, descend, make_optimizer


@dataclass(kw_only=True)
class IQLTrainingStats(TrainingStats):
    """The statistics of one update of IQL: each loss before its gradient step."""

    actor_loss: float
    critic1_loss: float
    critic2_loss: float
    value_loss: float


class IQLPolicy(ActorCriticLearner):
    r"""Implicit Q-learning, from fixed data (Kostrikov, Nair and Levine, arXiv:2110.06169, algorithm 1).

    .. math::
        L(V) &= \frac1B \sum \bigl|\tau - \mathbb 1[u < 0]\bigr|\, u^2, \qquad u = \min_j Q^-_j(s, a) - V(s) \\
        L(Q_j) &= \frac1B \sum \bigl(r + \gamma V(s') - Q_j(s, a)\bigr)^2 \\
        L(\pi) &= -\frac1B \sum \min\bigl(e^{\beta (\min_j Q^-_j(s, a) - V(s))}, w\bigr) \log \pi(a \mid s)

    The bound w is of the authors' code. Squared errors are weighted as by a prioritized buffer. No network computes
    values of actions that are not in the data. The policy is a normal distribution; its actions are
    bounded by ``action_bound_method``.

    :param actor: called as ``actor(obs, state=..., info=...)``; returns means and standard deviations, each ``[B,
        size]``, and the next hidden state, as :class:`rlfast.utils.net.continuous.ActorProb` does. The paper's means
        are in [-1, 1], and its deviations do not depend on observations.
    :param critic: called as ``critic(obs, act)``; returns ``[B, 1]``.
    :param critic_optim: an optimizer of ``critic``, or a factory.
    :param value: V, called as ``value(obs)``; returns ``[B, 1]``.
    :param value_optim: an optimizer of ``value``, or a factory.
    :param critic2: the second critic; None for a copy of the first with new parameters. Default: None.
    :param critic2_optim: an optimizer of ``critic2``; None for one like that of the first. Default: None.
    :param expectile: :math:`\tau`, in [0, 1]; 0.5 is the mean, and 1 the maximum. Default: 0.7.
    :param temperature: how much the advantage of an action counts, :math:`\beta`; near 0 the actor imitates the data.
        Default: 3.
    :param max_weight: the largest weight of an action, w. Default: 100.
    :param deterministic_eval: whether the policy takes its mean in evaluation mode. Default: True.
    :param options: of :class:`~rlfast.policy.actor_critic.ActorCriticLearner`.
    :raises ValueError: for a value out of range, another kind of action space, or an optimizer for a ``critic2`` that
        is not given.
    """

    acting_facts = DRAWING_FACTS
    stats_class = IQLTrainingStats
    learns_from_returns = False  # targets are made after the step of the value

    @validate_arguments
    def __init__(
        self,
        *,
        critic: nn.Module,
        critic_optim: OptionalOptimizer,
        critic2: nn.Module | None = None,
        critic2_optim: OptionalOptimizer = None,
        value: nn.Module,
        value_optim: OptionalOptimizer,
        expectile: UnitFloat = 0.7,
        temperature: PositiveFloat = 3.0,
        max_weight: PositiveFloat = 100.0,
        deterministic_eval: bool = True,
        **options: Unpack[ExploringOptions],
    ) -> None:
        check_networks(value=value)
        super().__init__(**options)
        twins = twin_critics(critic, critic_optim, critic2, critic2_optim)
        self.critic, self.critic_optim, self.critic2, self.critic2_optim = twins
        self.add_targets("critic", "critic2")
        self.value, self.value_optim = value, make_optimizer(value_optim, value.parameters())
        self.expectile, self.temperature, self.max_weight = expectile, temperature, max_weight
        self.deterministic_eval = deterministic_eval

    def forward(self, batch: ObsBatchProtocol, state: object = None, **kwargs: Any) -> DistBatchProtocol:  # type: ignore[override]
        """Choose actions at random, or by the mean in evaluation mode with ``deterministic_eval``.

        :return: ``act``, ``[B, *shape]``; ``dist``; ``logits``, means and deviations, ``[2, B, size]``; ``state``.
        """
        logits, hidden = self.actor(batch.obs, state=state, info=batch.info)
        dist = DiagonalNormal(*logits)
        greedy = self.deterministic_eval and not self.training
        act = dist.mode if greedy else dist.sample(generator=self._torch_rng)
        fields = {"logits": torch.stack(logits), "act": act.reshape(len(act), *self._act_shape), "state": hidden}
        return cast(DistBatchProtocol, wrap({**fields, "dist": dist}))

    def _make_chooser(self, form: Form) -> Chooser:
        return NormalChooser(self, form, self._act_shape)

    @instead_of_forward(lambda result: result.dist)
    def dist(self, sample: Sample) -> DiagonalNormal:
        """Return the distribution over actions at the observations of a sample.

        :param sample: the sample.
        """
        info = info_of(sample.batch)
        return DiagonalNormal(*self.actor(sample.obs, state=sample.state, info=info)[0])

    def gradient_step(self, sample: Sample) -> tuple[Losses, torch.Tensor]:
        """Do one step for the value, the actor, each critic and the target critics.

        This is the order of the authors' code; in algorithm 1 the actor learns after all steps of the others.
        """
        with torch.no_grad():
            q1_B, q2_B = (q_values(critic, sample.obs, sample.act) for critic in (self.critic_old, self.critic2_old))
            q_B = torch.minimum(q1_B, q2_B)
        value_loss = expectile_loss(q_B - self.value(sample.obs).flatten(), self.expectile)  # equation 5
        descend(value_loss, self.value_optim)

        with torch.no_grad():
            advantage_B = q_B - self.value(sample.obs).flatten()
            returns_B = sample.bootstrapped(self.value(sample.obs_next).flatten())
        weight_B = exponential_weight(advantage_B, self.temperature, self.max_weight)
        actor_loss = policy_gradient_loss(self.dist(sample).log_prob(sample.act.flatten(1)), weight_B)  # equation 7
        descend(actor_loss, self.actor_optim)

        error1_B, critic1_loss = critic_step(self.critic, self.critic_optim, sample, returns_B)  # equation 6
        error2_B, critic2_loss = critic_step(self.critic2, self.critic2_optim, sample, returns_B)
        self.sync_weight()
        losses = {"actor_loss": actor_loss.detach(), "value_loss": value_loss.detach()}
        losses |= {"critic1_loss": critic1_loss, "critic2_loss": critic2_loss}
        return losses, -(error1_B + error2_B) / 2
