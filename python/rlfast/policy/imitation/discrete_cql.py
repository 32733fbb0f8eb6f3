from dataclasses import dataclass
from typing import TypeVar, Unpack

import torch

from rlfast.functional.losses import quantile_huber
from rlfast.functional.offline import conservative_gap
from rlfast.policy.components.action_masks import action_mask, legal_logits
from rlfast.policy.modelfree.qrdqn import QRDQNOptions, QRDQNPolicy, QRDQNTrainingStats
from rlfast.policy.q_learner import output_of_actions
from rlfast.policy.replay import Losses, Sample
from rlfast.utils.arguments.validation import NonNegativeFloat, validate_arguments
from rlfast.utils.optim import descend


@dataclass(kw_only=True)
class DiscreteCQLTrainingStats(QRDQNTrainingStats):
    """The statistics of one gradient step of discrete CQL: the losses before the step."""

    cql_loss: float
    """How far the values of all actions exceed those of the data."""
    qr_loss: float
    """The loss of the quantiles."""


TDiscreteCQLTrainingStats = TypeVar("TDiscreteCQLTrainingStats", bound=DiscreteCQLTrainingStats)


class DiscreteCQLPolicy(QRDQNPolicy):
    r"""Conservative Q-learning of quantiles, from fixed data with discrete actions (Kumar et al., arXiv:2006.04779).

    .. math::
        L = L_{\mathrm{QR}} + w \frac1B \sum \Bigl( \log \sum_a e^{Q(s, a)} - Q(s, \hat a) \Bigr), \qquad
        Q(s, a) = \frac1N \sum_i \theta_i(s, a)

    (equation 4), with the loss :math:`L_{\mathrm{QR}}` of :class:`QRDQNPolicy`.

    :param min_q_weight: w, 0 or more. Default: 10.
    :param options: of :class:`QRDQNPolicy`.
    :raises ValueError: for a value out of range.

    >>> from gymnasium.spaces import Discrete
    >>> from rlfast.data import Batch
    >>> from rlfast.utils.net.common import Net
    >>> from rlfast.utils.optim import adam
    >>> model, space = Net(4, 2, [64], num_atoms=200), Discrete(2)
    >>> policy = DiscreteCQLPolicy(model=model, optim=adam(1e-3), action_space=space, target_update_freq=100)
    >>> policy(Batch(obs=torch.zeros(3, 4), info={})).act.shape
    (3,)
    """

    stats_class = DiscreteCQLTrainingStats

    @validate_arguments
    def __init__(self, *, min_q_weight: NonNegativeFloat = 10.0, **options: Unpack[QRDQNOptions]) -> None:
        super().__init__(**options)
        self.min_q_weight = min_q_weight

    def gradient_step(self, sample: Sample) -> tuple[Losses, torch.Tensor]:
        """Update the target network if it is due, and do one gradient step on the loss."""
        if sample.is_due:
            self.sync_weight()
        quantile_BAN = self.values(sample.obs, sample.state, sample.batch)
        quantile_BN = output_of_actions(quantile_BAN, sample.act)
        loss_B, error_B = quantile_huber(quantile_BN, sample.returns, self.tau_hat.flatten())
        qr_loss = (sample.weight * loss_B).mean()
        q_BA = self.compute_q_value(quantile_BAN, None)
        legal_BA = legal_logits(q_BA, action_mask(sample.obs))
        cql_loss = conservative_gap(legal_BA, output_of_actions(q_BA, sample.act))  # equation 4
        loss = qr_loss + self.min_q_weight * cql_loss
        descend(loss, self.optim)
        return {"loss": loss.detach(), "qr_loss": qr_loss.detach(), "cql_loss": cql_loss.detach()}, error_B
