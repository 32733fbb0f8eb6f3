from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, Unpack

import torch

from rlfast.data.stats import SequenceSummaryStats
from rlfast.data.types import RolloutBatchProtocol
from rlfast.functional import normalize
from rlfast.functional.losses import clipped_surrogate_loss, explained_variance, policy_change, value_loss
from rlfast.policy.base import TrainingStats
from rlfast.policy.components.distributions import entropy_of, log_prob_of
from rlfast.policy.components.minibatches import summaries_of
from rlfast.policy.modelfree.a2c import A2CPolicy
from rlfast.policy.rollout import Minibatch, RolloutLearner, RolloutOptions
from rlfast.utils.arguments.checks import ArgumentError
from rlfast.utils.arguments.validation import FiniteFloat, NonNegativeFloat, PositiveFloat, validate_arguments
from rlfast.utils.optim import descend


@dataclass(kw_only=True)
class PPOTrainingStats(TrainingStats):
    """The statistics of the gradient steps on one roll-out: each loss before its gradient step."""

    loss: SequenceSummaryStats
    clip_loss: SequenceSummaryStats
    vf_loss: SequenceSummaryStats
    ent_loss: SequenceSummaryStats
    """The entropy itself."""
    approx_kl: SequenceSummaryStats | None = None
    """How far the policy has moved from the one that acted: see :func:`rlfast.functional.losses.policy_change`."""
    clip_fraction: SequenceSummaryStats | None = None
    """The share of rows whose ratio of probabilities differs from 1 by more than ``eps_clip``."""
    explained_variance: float | None = None
    """The share of the variance of returns that the critic explained before the update; NaN if returns are equal."""
    gradient_steps: float | None = None
    """The number of gradient steps, with ``target_kl``; None without."""

    _non_loss_fields = (
        *TrainingStats._non_loss_fields,  # noqa: SLF001 (the base class's)
        "approx_kl",
        "clip_fraction",
        "explained_variance",
        "gradient_steps",
    )


TPPOTrainingStats = TypeVar("TPPOTrainingStats", bound=PPOTrainingStats)


class PPOOptions(RolloutOptions, total=False):
    """The arguments of :class:`PPOPolicy`."""

    eps_clip: float
    dual_clip: float | None
    value_clip: bool
    advantage_normalization: bool
    recompute_advantage: bool
    vf_coef: float
    ent_coef: float
    max_grad_norm: float | None
    target_kl: float | None


@A2CPolicy.register
class PPOPolicy(RolloutLearner):
    r"""Proximal policy optimization (Schulman et al., arXiv:1707.06347).

    .. math::
        L = -L^{\mathrm{CLIP}}(\pi) + c_1 L^{V} - c_2 \frac1B \sum \mathcal H\bigl(\pi(\cdot \mid s)\bigr)

    (the negative of equation 9), in ``repeat`` passes over a roll-out. Before the passes, the base class computes its
    advantages (equations 11 and 12) and returns by :func:`rlfast.functional.gae`. See
    :func:`rlfast.functional.clipped_surrogate_loss` and :func:`rlfast.functional.value_loss` for the parts.

    :param eps_clip: bound of the change of the ratio of probabilities, :math:`\epsilon`. Default: 0.2.
    :param dual_clip: bound of the loss where the advantage is negative (arXiv:1912.09729), above 1; 0 or None
        for none. Default: None.
    :param value_clip: whether the critic's step is clipped by ``eps_clip``, too. Default: False.
    :param advantage_normalization: whether advantages are scaled to mean 0 and deviation 1 in each minibatch,
        which is not in the paper. Default: True.
    :param recompute_advantage: whether advantages are computed again before each pass (arXiv:2006.05990, section 3.5).
        Default: False.
    :param vf_coef: weight of the critic's loss, :math:`c_1`. Default: 0.5.
    :param ent_coef: weight of the entropy, :math:`c_2`. Default: 0.01.
    :param max_grad_norm: largest Euclidean norm of the gradient of all parameters of ``optim``; 0 or None for no limit.
        Default: None.
    :param target_kl: the passes over a roll-out end before the first gradient step on a minibatch on which the policy
        has moved further than 1.5 times this from the one that acted, by ``approx_kl``; as in Stable-Baselines3, not in
        the paper. It takes a second forward pass of the actor for each step. None for no end. Default: None.
    :param options: of :class:`~rlfast.policy.rollout.RolloutLearner`.
    :raises ValueError: for a value out of range, or scaling to a Box without finite bounds.

    >>> from gymnasium.spaces import Discrete
    >>> from rlfast.data import Batch
    >>> from rlfast.utils.net.common import Net
    >>> from rlfast.utils.net.discrete import Actor, Critic
    >>> from rlfast.utils.optim import adam
    >>> nets = {"actor": Actor(Net(4, hidden_sizes=[64]), 2), "critic": Critic(Net(4, hidden_sizes=[64]))}
    >>> how = {"optim": adam(3e-4), "dist_fn": torch.distributions.Categorical, "action_scaling": False}
    >>> policy = PPOPolicy(**nets, **how, action_space=Discrete(2))
    >>> policy(Batch(obs=torch.zeros(5, 4), info={})).act.shape
    torch.Size([5])
    """

    stats_class: ClassVar[type[Any]] = PPOTrainingStats

    @validate_arguments
    def __init__(
        self,
        *,
        eps_clip: NonNegativeFloat = 0.2,
        dual_clip: FiniteFloat | None = None,
        value_clip: bool = False,
        advantage_normalization: bool = True,
        recompute_advantage: bool = False,
        vf_coef: FiniteFloat = 0.5,
        ent_coef: FiniteFloat = 0.01,
        max_grad_norm: NonNegativeFloat | None = None,
        target_kl: PositiveFloat | None = None,
        **options: Unpack[RolloutOptions],
    ) -> None:
        if dual_clip and not dual_clip > 1:
            raise ArgumentError(f"dual_clip must be above 1, or None for no second clip, got {dual_clip}")
        super().__init__(**options)
        self.eps_clip, self.dual_clip, self.value_clip = eps_clip, dual_clip or None, value_clip
        self.norm_adv, self.recompute_adv = advantage_normalization, recompute_advantage
        self.vf_coef, self.ent_coef, self.max_grad_norm = vf_coef, ent_coef, max_grad_norm
        self.target_kl = target_kl

    def gradient_step(self, batch: Minibatch) -> dict[str, torch.Tensor]:
        """Do one gradient step on the loss of a minibatch (equation 9)."""
        dist = self.dist(batch)
        adv_B = normalize(batch.adv) if self.norm_adv else batch.adv
        logp_B = log_prob_of(dist, batch.act)
        clip_loss = clipped_surrogate_loss(logp_B, batch.logp_old, adv_B, self.eps_clip, self.dual_clip)  # equation 7
        value_B = self.critic(batch.obs).flatten()
        vf_loss = value_loss(value_B, batch.returns, batch.v_s if self.value_clip else None, self.eps_clip)
        entropy = entropy_of(dist).mean()
        loss = clip_loss + self.vf_coef * vf_loss - (self.ent_coef and self.ent_coef * entropy)  # 0: no gradient
        change, share = policy_change(logp_B.detach(), batch.logp_old, self.eps_clip)
        descend(loss, self.optim, self.max_grad_norm)
        losses = {"loss": loss, "clip_loss": clip_loss, "vf_loss": vf_loss, "ent_loss": entropy}
        losses |= {"approx_kl": change, "clip_fraction": share}
        return {name: value.detach() for name, value in losses.items()}

    def summaries_of_passes(
        self, batch: RolloutBatchProtocol, batch_size: int | None, repeat: int
    ) -> dict[str, SequenceSummaryStats]:
        """Learn from a roll-out in several passes; see :meth:`RolloutLearner.learn`.

        :return: a summary of each loss, and the numbers ``explained_variance`` and, with ``target_kl``,
            ``gradient_steps``.
        """
        rollout: Any = self._as_tensors(batch)
        explained = explained_variance(rollout.v_s, rollout.returns).item()
        losses = self.losses_of_passes(batch, batch_size, repeat)
        counted = {} if self.target_kl is None else {"gradient_steps": len(losses)}
        summaries: dict[str, Any] = {**summaries_of(losses), "explained_variance": explained, **counted}
        return summaries

    @torch.no_grad()
    def is_finished(self, batch: Minibatch) -> bool:
        """Return whether the policy has moved too far from the one that acted; see ``target_kl``."""
        if self.target_kl is None:
            return False
        logp_B = log_prob_of(self.dist(batch), batch.act)
        return policy_change(logp_B, batch.logp_old, self.eps_clip)[0].item() > 1.5 * self.target_kl
