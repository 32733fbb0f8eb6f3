from dataclasses import dataclass
from typing import ClassVar, TypeVar, Unpack

import torch

from rlfast.data.stats import SequenceSummaryStats
from rlfast.functional.losses import policy_gradient_loss, value_loss
from rlfast.policy.base import TrainingStats
from rlfast.policy.components.distributions import entropy_of, log_prob_of
from rlfast.policy.modelfree.pg import PGPolicy
from rlfast.policy.rollout import Minibatch, RolloutLearner, RolloutOptions
from rlfast.utils.arguments.validation import FiniteFloat, NonNegativeFloat, validate_arguments
from rlfast.utils.optim import descend


@dataclass(kw_only=True)
class A2CTrainingStats(TrainingStats):
    """The statistics of the gradient steps on one roll-out: each loss before its gradient step."""

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

    :param vf_coef: weight of the critic's loss, :math:`c_v`. Default: 0.5.
    :param ent_coef: weight of the entropy, :math:`c_e`. Default: 0.01.
    :param max_grad_norm: largest Euclidean norm of the gradient of all parameters of ``optim``; 0 or None for no limit.
        Default: None.
    :param options: of :class:`~rlfast.policy.rollout.RolloutLearner`.
    :raises ValueError: for a value out of range, or scaling to a Box without finite bounds.

    >>> from gymnasium.spaces import Discrete
    >>> from rlfast.data import Batch
    >>> from rlfast.utils.net.common import Net
    >>> from rlfast.utils.net.discrete import Actor, Critic
    >>> from rlfast.utils.optim import adam
    >>> nets = {"actor": Actor(Net(4, hidden_sizes=[64]), 2), "critic": Critic(Net(4, hidden_sizes=[64]))}
    >>> how = {"optim": adam(7e-4), "dist_fn": torch.distributions.Categorical, "action_scaling": False}
    >>> policy = A2CPolicy(**nets, **how, action_space=Discrete(2))
    >>> policy(Batch(obs=torch.zeros(5, 4), info={})).act.shape
    torch.Size([5])
    """

    stats_class = A2CTrainingStats
    columns: ClassVar[tuple[str, ...]] = ("act", "adv", "returns")

    @validate_arguments
    def __init__(
        self,
        *,
        vf_coef: FiniteFloat = 0.5,
        ent_coef: FiniteFloat = 0.01,
        max_grad_norm: NonNegativeFloat | None = None,
        **options: Unpack[RolloutOptions],
    ) -> None:
        super().__init__(**options)
        self.vf_coef, self.ent_coef, self.max_grad_norm = vf_coef, ent_coef, max_grad_norm

    def gradient_step(self, batch: Minibatch) -> dict[str, torch.Tensor]:
        """Do one gradient step on the loss of a minibatch (algorithm S3)."""
        dist = self.dist(batch)
        actor_loss = policy_gradient_loss(log_prob_of(dist, batch.act), batch.adv)
        vf_loss = value_loss(self.critic(batch.obs).flatten(), batch.returns)
        ent_loss = entropy_of(dist).mean()
        loss = actor_loss + self.vf_coef * vf_loss - (self.ent_coef and self.ent_coef * ent_loss)  # 0: no gradient
        descend(loss, self.optim, self.max_grad_norm)
        losses = {"loss": loss, "actor_loss": actor_loss, "vf_loss": vf_loss, "ent_loss": ent_loss}
        return {name: value.detach() for name, value in losses.items()}
