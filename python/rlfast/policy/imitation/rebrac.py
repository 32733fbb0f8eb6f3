from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
import torch

from rlfast.data import ReplayBuffer
from rlfast.functional.offline import squared_distance
from rlfast.policy.components.returns import Index
from rlfast.policy.critics import q_values
from rlfast.policy.modelfree.td3 import TD3Options, TD3Policy, TD3TrainingStats
from rlfast.policy.replay import Losses, Sample
from rlfast.utils.arguments.validation import NonNegativeFloat, validate_arguments


@dataclass(kw_only=True)
class ReBRACTrainingStats(TD3TrainingStats):
    """The statistics of one update of ReBRAC: each loss before its gradient step."""


class ReBRACPolicy(TD3Policy):
    r"""Revisited behaviour-regularized actor-critic, from fixed data (Tarasov et al., arXiv:2305.09836, section 3).

    .. math::
        y &= r + \gamma \Bigl( \min_j Q^-_j(s', \tilde a) - \beta_2 \|\tilde a - \hat a'\|^2 \Bigr), \qquad
            \tilde a = \bigl[\mu^-(s') + \mathrm{clip}(\epsilon, -c, c)\bigr]_{-1}^1 \\
        L(\mu) &= \frac1B \sum \beta_1 \|\mu(s) - \hat a\|^2 - \lambda \min_j Q_j\bigl(s, \mu(s)\bigr), \qquad
            \lambda = \frac1{\frac1B \sum |\min_j Q_j|}

    with the actions :math:`\hat a, \hat a'` of the data. Where an episode of the data was cut off, its next action is
    not known, and the penalty of the target is 0. The paper has critics of three hidden layers with layer
    normalization.

    :param actor_penalty: :math:`\beta_1`, 0 or more. Default: 0.01.
    :param critic_penalty: :math:`\beta_2`, 0 or more. Default: 0.01.
    :param normalize_value: whether :math:`\lambda` is as above, or 1. Default: True.
    :param options: of :class:`TD3Policy`.
    :raises ValueError: for a value out of range, another kind of action space, or an optimizer for a ``critic2`` that
        is not given.
    """

    stats_class = ReBRACTrainingStats
    learns_from_sequences = False
    learns_from_returns = False
    extra_names = ("act_next", "has_next")

    @validate_arguments
    def __init__(
        self,
        *,
        actor_penalty: NonNegativeFloat = 0.01,
        critic_penalty: NonNegativeFloat = 0.01,
        normalize_value: bool = True,
        **options: Unpack[TD3Options],
    ) -> None:
        super().__init__(**options)
        self.actor_penalty, self.critic_penalty = actor_penalty, critic_penalty
        self.normalize_value = normalize_value

    def _add_sums(self, batch: Any, buffer: ReplayBuffer, indices: Index) -> Index:
        """Add also the actions after the last rewards, and whether they are known."""
        last = super()._add_sums(batch, buffer, indices)
        following = np.asarray(buffer.next(last))
        batch.act_next = np.asarray(buffer.get(following, "act", stack_num=1))
        batch.has_next = following != last
        return last

    def smoothed_actions(self, obs: object, state: object, noise: torch.Tensor) -> torch.Tensor:
        """Return actions of the target actor with noise, within -1 and 1, as those of the data are; ``[B, *shape]``."""
        act = super().smoothed_actions(obs, state, noise)
        is_limited = self.action_bound_method == "clip" or (self.action_scaling and self.action_bound_method is None)
        return act.clamp(-1.0, 1.0) if is_limited else act

    def gradient_step(self, sample: Sample) -> tuple[Losses, torch.Tensor]:
        """Do one step for each critic and, if it is due, one for the actor and one of the target networks."""
        act_next, has_next_B = sample.extras
        with torch.no_grad():
            act = self.smoothed_actions(sample.obs_next, sample.state_next, *sample.draws_next)
            q1_B, q2_B = (q_values(critic, sample.obs_next, act) for critic in (self.critic_old, self.critic2_old))
            penalty_B = squared_distance(act, act_next.to(act.dtype)) * has_next_B
            returns = sample.bootstrapped(torch.minimum(q1_B, q2_B) - self.critic_penalty * penalty_B)
        return super().gradient_step(sample._replace(returns=returns))

    def actor_loss(self, sample: Sample) -> torch.Tensor:
        """Return the loss of the actor: the distance from the actions of the data, and value."""
        act = self.act(sample.obs, sample.state, sample.batch)
        q_B = torch.minimum(q_values(self.critic, sample.obs, act), q_values(self.critic2, sample.obs, act))
        scale: Any = 1 / q_B.detach().abs().mean() if self.normalize_value else 1.0
        loss: torch.Tensor = (self.actor_penalty * squared_distance(act, sample.act) - scale * q_B).mean()
        return loss
