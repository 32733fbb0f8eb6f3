"""The template of algorithms that learn from roll-outs by a clipped surrogate loss."""

from typing import TYPE_CHECKING, Any

import torch

from rlfast.data.stats import SequenceSummaryStats
from rlfast.functional import normalize
from rlfast.functional.losses import clipped_surrogate_loss, explained_variance, policy_change, value_loss
from rlfast.policy.components.distributions import log_prob_of
from rlfast.policy.learners.rollout_learner import RolloutLearner, TDistribution
from rlfast.utils.arguments.checks import ArgumentError
from rlfast.utils.optim import descend

if TYPE_CHECKING:
    from rlfast.data.types import RolloutBatchProtocol


class ClippedLearner(RolloutLearner):
    """A learner by the loss of proximal policy optimization (arXiv:1707.06347, equation 9).

    The names of the losses are ``loss``, ``clip_loss``, ``vf_loss`` and ``ent_loss``; those of the other statistics
    ``approx_kl``, ``clip_fraction`` and ``explained_variance``.
    """

    eps_clip: float
    """Bound of the change of the ratio of probabilities."""
    dual_clip: float | None
    """Bound of the loss where the advantage is negative (arXiv:1912.09729); None for none."""
    value_clip: bool
    """Whether the critic's step is clipped by ``eps_clip``, too."""
    norm_adv: bool
    """Whether advantages have mean 0 and deviation 1 in each minibatch."""
    vf_coef: float
    ent_coef: float
    max_grad_norm: float | None
    """The largest Euclidean norm of all gradients together; None for no limit."""

    def set_clipping(self, eps_clip: float, dual_clip: float | None, *, value_clip: bool) -> None:
        """Set what is clipped; constructors call it.

        :param eps_clip: see :attr:`eps_clip`.
        :param dual_clip: above 1; 0 or None for no second clip.
        :param value_clip: see :attr:`value_clip`.
        :raises ValueError: if ``dual_clip`` is out of range.
        """
        if dual_clip and not dual_clip > 1:
            raise ArgumentError(f"dual_clip must be above 1, or None for no second clip, got {dual_clip}")
        self.eps_clip, self.dual_clip, self.value_clip = eps_clip, dual_clip or None, value_clip

    def gradient_step(self, distribution: TDistribution, obs: Any, *columns: torch.Tensor) -> dict[str, torch.Tensor]:
        """Do one gradient step on the loss of a minibatch."""
        dist = distribution()
        act, logp_old_B, adv_B, returns_B, v_s_B = columns
        if self.norm_adv:
            adv_B = normalize(adv_B)
        logp_B = log_prob_of(dist, act)
        clip_loss = clipped_surrogate_loss(logp_B, logp_old_B, adv_B, self.eps_clip, self.dual_clip)
        value_B = self.critic(obs).flatten()
        vf_loss = value_loss(value_B, returns_B, v_s_B if self.value_clip else None, self.eps_clip)
        loss = clip_loss + self.vf_coef * vf_loss
        if self.ent_coef:
            ent_loss = dist.entropy().mean()
            loss = loss - self.ent_coef * ent_loss
        else:
            with torch.no_grad():  # its gradient is not needed
                ent_loss = dist.entropy().mean()
        change, share = policy_change(logp_B.detach(), logp_old_B, self.eps_clip)
        descend(loss, self.optim, self.max_grad_norm)
        losses = {"loss": loss, "clip_loss": clip_loss, "vf_loss": vf_loss, "ent_loss": ent_loss}
        losses |= {"approx_kl": change, "clip_fraction": share}
        return {name: value.detach() for name, value in losses.items()}

    def summaries_of_passes(
        self, batch: "RolloutBatchProtocol", batch_size: int | None, repeat: int
    ) -> dict[str, SequenceSummaryStats]:
        """Pass over a roll-out; see :meth:`RolloutLearner.learn`.

        :return: a summary of each loss, and ``explained_variance``, a number.
        """
        rollout: Any = self._as_tensors(batch)
        explained = explained_variance(rollout.v_s, rollout.returns).item()
        summaries: dict[str, Any] = super().summaries_of_passes(batch, batch_size, repeat)
        return summaries | {"explained_variance": explained}
