from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, Unpack

import torch
from numpy.typing import NDArray
from torch import nn

from rlfast.data.forms import Form
from rlfast.functional.losses import quantile_huber
from rlfast.policy.base import TrainingStats
from rlfast.policy.components.action_masks import legal_values
from rlfast.policy.modelfree.dqn import DQNPolicy, DQNTrainingStats
from rlfast.policy.native.choosers import Chooser, ExpectationChooser
from rlfast.policy.q_learner import DQNOptions, QLearner, output_of_actions
from rlfast.policy.replay import Losses, Sample
from rlfast.utils.arguments.validation import TwoOrMore, validate_arguments
from rlfast.utils.net.common import device_of
from rlfast.utils.optim import descend


@dataclass(kw_only=True)
class QRDQNTrainingStats(DQNTrainingStats):
    """The statistics of one gradient step of QRDQN."""


TQRDQNTrainingStats = TypeVar("TQRDQNTrainingStats", bound=QRDQNTrainingStats)


class QRDQNOptions(DQNOptions, total=False):
    """The arguments of :class:`QRDQNPolicy`."""

    num_quantiles: int


@DQNPolicy.register
class QRDQNPolicy(QLearner):
    r"""Quantile regression DQN (Dabney et al., arXiv:1710.10044, algorithm 1).

    The network estimates N quantiles of the return, :math:`\theta`, for each action:

    .. math::
        a^* &= \arg\max_a \frac1N \sum_i \theta_i(s_{t+k}, a), \qquad
        y_j = \sum_{i=0}^{k-1} \gamma^i r_{t+i} + \gamma^k\, \theta^-_j(s_{t+k}, a^*) \\
        L &= \frac1B \sum w \sum_i \frac1N \sum_j \rho_{\hat\tau_i}\bigl(y_j - \theta_i(s_t, a_t)\bigr), \qquad
        \hat\tau_i = \frac{2 i - 1}{2 N}

    with :math:`\rho` of :func:`rlfast.functional.losses.quantile_huber`.

    Returns sum k rewards, at most ``estimation_step``; w are the importance weights of a prioritized buffer, else 1.

    :param num_quantiles: number of quantiles of each return, N, 2 or more. Default: 200.
    :param clip_loss_grad: has no effect: Huber's function clips. Default: False.
    :param options: of :class:`~rlfast.policy.q_learner.QLearner`.
    :raises ValueError: for a value out of range.

    >>> from gymnasium.spaces import Discrete
    >>> from rlfast.data import Batch
    >>> from rlfast.utils.net.common import Net
    >>> from rlfast.utils.optim import adam
    >>> model, space = Net(4, 2, [64], num_atoms=200), Discrete(2)
    >>> policy = QRDQNPolicy(model=model, optim=adam(1e-3), action_space=space, target_update_freq=100)
    >>> policy(Batch(obs=torch.zeros(3, 4), info={})).logits.shape
    torch.Size([3, 2, 200])
    """

    acting_facts: ClassVar[tuple[str, ...]] = ("max_action_num", "num_quantiles")
    stats_class: ClassVar[type[TrainingStats]] = QRDQNTrainingStats
    learns_from_sequences = True

    @validate_arguments
    def __init__(self, *, num_quantiles: TwoOrMore = 200, **options: Unpack[DQNOptions]) -> None:
        super().__init__(**options)
        self.num_quantiles = num_quantiles
        levels = (torch.arange(num_quantiles, device=device_of(self.model)) + 0.5) / num_quantiles  # lemma 2
        self.tau_hat = nn.Parameter(levels.view(1, -1, 1), False)

    def compute_q_value(self, logits: torch.Tensor, mask: NDArray[Any] | torch.Tensor | None) -> torch.Tensor:
        """Return the means of the quantiles, ``[B, actions]``; see :meth:`QLearner.compute_q_value`."""
        return legal_values(logits.mean(dim=2), mask)

    def _make_chooser(self, form: Form) -> Chooser:
        return self.for_all_actions(ExpectationChooser(self, form, atoms=self.num_quantiles, values=None))

    def next_value(self, obs_next: object, state: object = None, *draws: torch.Tensor) -> torch.Tensor:
        """Return the quantiles of the return after the last reward, ``[B, N]`` (algorithm 1)."""
        quantile_BAN = self.values(obs_next, state, model=self.lagged)
        return output_of_actions(quantile_BAN, self.next_actions(obs_next, state, quantile_BAN))

    def gradient_step(self, sample: Sample) -> tuple[Losses, torch.Tensor]:
        """Update the target network if it is due, and do one gradient step on the loss (equation 10)."""
        if sample.is_due:
            self.sync_weight()
        quantile_BN = output_of_actions(self.values(sample.obs, sample.state, sample.batch), sample.act)
        loss_B, error_B = quantile_huber(quantile_BN, sample.returns, self.tau_hat.flatten())
        loss = (sample.weight * loss_B).mean()
        descend(loss, self.optim)
        return {"loss": loss.detach()}, error_B
