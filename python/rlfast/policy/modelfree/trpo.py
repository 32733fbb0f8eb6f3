from dataclasses import dataclass
from typing import ClassVar, TypeVar, Unpack

import torch
from torch.distributions import Distribution

from rlfast.data.stats import SequenceSummaryStats
from rlfast.functional.losses import surrogate_loss
from rlfast.policy.components.distributions import log_prob_of
from rlfast.policy.modelfree.npg import NPGOptions, NPGPolicy, NPGTrainingStats
from rlfast.policy.rollout import Minibatch
from rlfast.utils.arguments.validation import PositiveFloat, PositiveInt, UnitFloat, validate_arguments


@dataclass(kw_only=True)
class TRPOTrainingStats(NPGTrainingStats):
    """What the steps on one roll-out tell."""

    step_size: SequenceSummaryStats
    """What the line search found; 0 where it found nothing better, and the actor stayed as it was."""


TTRPOTrainingStats = TypeVar("TTRPOTrainingStats", bound=TRPOTrainingStats)


class TRPOPolicy(NPGPolicy):
    r"""Trust region policy optimization (Schulman et al., arXiv:1502.05477).

    .. math::
        \min_\theta L(\theta) = -\frac1B \sum \frac{\pi_\theta(a \mid s)}{\pi_{\mathrm{old}}(a \mid s)} A
        \quad \text{subject to} \quad
        \frac1B \sum D_{\mathrm{KL}}\bigl(\pi_{\mathrm{old}} \,\|\, \pi_\theta\bigr) \le \delta

    (equation 14.) The step along the natural gradient s starts with the size :math:`\sqrt{2\delta / s^T F s}` and
    shrinks until the loss falls and the constraint holds (appendix C); where it never does, the actor stays as it was.
    Advantages are estimated by :func:`rlfast.functional.gae`. On each minibatch the critic takes several steps down
    the mean squared error of its values.

    :param max_kl: largest divergence of the new policy from the old one, :math:`\delta`. Default: 0.01.
    :param backtrack_coeff: by which the step shrinks. Default: 0.8.
    :param max_backtracks: most sizes that are tried. Default: 10.
    :param options: of :class:`NPGPolicy`; ``actor_step_size`` has no effect.
    :raises ValueError: for a value out of range, or scaling to a Box without finite bounds.
    """

    stats_class = TRPOTrainingStats
    columns: ClassVar[tuple[str, ...]] = ("act", "logp_old", "adv", "returns")

    @validate_arguments
    def __init__(
        self,
        *,
        max_kl: PositiveFloat = 0.01,
        backtrack_coeff: UnitFloat = 0.8,
        max_backtracks: PositiveInt = 10,
        **options: Unpack[NPGOptions],
    ) -> None:
        super().__init__(**options)
        self.max_kl, self.backtrack_coeff, self.max_backtracks = max_kl, backtrack_coeff, max_backtracks

    def actor_step(self, batch: Minibatch) -> dict[str, torch.Tensor]:
        """Take the longest step along the natural gradient that is found within the trust region (appendix C).

        :param batch: the minibatch.
        :return: ``actor_loss`` before the step; ``kl``, the divergence from the policy before it; ``step_size``.
        """

        def actor_loss(dist: Distribution) -> torch.Tensor:
            return surrogate_loss(log_prob_of(dist, batch.act), batch.logp_old, batch.adv)  # equation 14

        step = self.natural_step(batch, actor_loss)
        curvature = step.direction.dot(step.fisher_product(step.direction))
        size = (2 * self.max_kl / curvature).sqrt()
        for _ in range(self.max_backtracks if curvature > 0 else 0):
            kl, loss = step.take(size)
            if kl < self.max_kl and loss < step.loss:
                break
            size = size * self.backtrack_coeff
        else:
            size = torch.zeros_like(size)
            kl, _ = step.take(size)
        return {"actor_loss": step.loss, "kl": kl, "step_size": size}
