from dataclasses import dataclass
from typing import Any, TypeVar, Unpack

import torch
from numpy.typing import NDArray
from torch import nn

from rlfast.data.forms import Form
from rlfast.functional.losses import cross_entropy, projected_distribution
from rlfast.policy.components.action_masks import legal_values
from rlfast.policy.modelfree.dqn import DQNPolicy, DQNTrainingStats
from rlfast.policy.native.choosers import Chooser, ExpectationChooser
from rlfast.policy.q_learner import DQNOptions, QLearner, output_of_actions
from rlfast.policy.replay import Losses, Sample
from rlfast.utils.arguments.checks import ArgumentError
from rlfast.utils.arguments.validation import FiniteFloat, TwoOrMore, validate_arguments
from rlfast.utils.net.common import device_of
from rlfast.utils.optim import descend


@dataclass(kw_only=True)
class C51TrainingStats(DQNTrainingStats):
    """The statistics of one gradient step of C51."""


TC51TrainingStats = TypeVar("TC51TrainingStats", bound=C51TrainingStats)


class C51Options(DQNOptions, total=False):
    """The arguments of :class:`C51Policy`."""

    num_atoms: int
    v_min: float
    v_max: float


@DQNPolicy.register
class C51Policy(QLearner):
    r"""Categorical DQN (Bellemare, Dabney and Munos, arXiv:1707.06887, algorithm 1).

    The network computes the probabilities of N evenly spaced returns, z, for each action:

    .. math::
        a^* &= \arg\max_a \sum_i z_i\, p_i(s_{t+k}, a), \qquad
        G_j = \sum_{i=0}^{k-1} \gamma^i r_{t+i} + \gamma^k z_j \\
        L &= -\frac1B \sum w \sum_i \bigl(\Phi\, p^-(s_{t+k}, a^*)\bigr)_i \log p_i(s_t, a_t)

    with the projection :math:`\Phi` of :func:`rlfast.functional.losses.projected_distribution`. The cross-entropies are
    the errors of prioritized replay.

    Returns sum k rewards, at most ``estimation_step``; w are the importance weights of a prioritized buffer, else 1.

    :param num_atoms: number of returns whose probabilities are learned, N, 2 or more. Default: 51.
    :param v_min: the smallest of the returns z. Default: -10.
    :param v_max: the largest of the returns. Default: 10.
    :param clip_loss_grad: has no effect: probabilities have no errors to clip. Default: False.
    :param options: of :class:`~rlfast.policy.q_learner.QLearner`.
    :raises ValueError: for a value out of range.

    >>> from gymnasium.spaces import Discrete
    >>> from rlfast.data import Batch
    >>> from rlfast.utils.net.common import Net
    >>> from rlfast.utils.optim import adam
    >>> model = Net(4, 2, [64], softmax=True, num_atoms=51)
    >>> policy = C51Policy(model=model, optim=adam(1e-3), action_space=Discrete(2), target_update_freq=100)
    >>> policy(Batch(obs=torch.zeros(3, 4), info={})).logits.shape
    torch.Size([3, 2, 51])
    """

    stats_class = C51TrainingStats
    learns_from_sequences = True
    learns_from_returns = False

    @validate_arguments
    def __init__(
        self,
        *,
        num_atoms: TwoOrMore = 51,
        v_min: FiniteFloat = -10.0,
        v_max: FiniteFloat = 10.0,
        **options: Unpack[DQNOptions],
    ) -> None:
        if not v_min < v_max:
            raise ArgumentError(f"v_min must be below v_max, got {v_min} and {v_max}")
        super().__init__(**options)
        self.support = nn.Parameter(torch.linspace(v_min, v_max, num_atoms, device=device_of(self.model)), False)
        self.delta_z = (v_max - v_min) / (num_atoms - 1)

    def compute_q_value(self, logits: torch.Tensor, mask: NDArray[Any] | torch.Tensor | None) -> torch.Tensor:
        """Return the expected returns, ``[B, actions]``; see :meth:`QLearner.compute_q_value`."""
        return legal_values((logits * self.support).sum(dim=2), mask)

    def _make_chooser(self, form: Form) -> Chooser:
        return self.for_all_actions(ExpectationChooser(self, form, atoms=len(self.support), values="support"))

    def next_value(self, obs_next: object, state: object = None, *draws: torch.Tensor) -> torch.Tensor:
        """Return the probabilities of the returns after the last reward, ``[B, N]``."""
        prob_BAN = self.values(obs_next, state, model=self.lagged)
        return output_of_actions(prob_BAN, self.next_actions(obs_next, state, prob_BAN))

    def target_distribution(self, sample: Sample) -> torch.Tensor:
        """Return the probabilities of the returns, ``[B, N]``: those after the last reward, projected (equation 7).

        :param sample: the transitions.
        """
        prob_BN = self.next_value(sample.obs_next, sample.state_next)
        return projected_distribution(sample.bootstrapped(self.support.expand_as(prob_BN)), prob_BN, self.support)

    def gradient_step(self, sample: Sample) -> tuple[Losses, torch.Tensor]:
        """Update the target network if it is due, and do one gradient step on the loss (algorithm 1)."""
        if sample.is_due:
            self.sync_weight()
        with torch.no_grad():
            target_BN = self.target_distribution(sample)
        prob_BN = output_of_actions(self.values(sample.obs, sample.state, sample.batch), sample.act)
        error_B = cross_entropy(target_BN, prob_BN)
        loss = (sample.weight * error_B).mean()
        descend(loss, self.optim)
        return {"loss": loss.detach()}, error_B.detach()
