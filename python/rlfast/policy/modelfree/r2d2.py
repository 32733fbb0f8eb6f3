from dataclasses import dataclass
from typing import Required, Unpack

import torch
from gymnasium.spaces import Discrete
from torch import nn

from rlfast.functional.losses import squared_loss, td_error
from rlfast.functional.sequences import rescaled, unrescaled
from rlfast.policy.base import PolicyOptions, TrainingStats
from rlfast.policy.components.action_masks import action_mask
from rlfast.policy.q_learner import QLearner, output_of_actions
from rlfast.policy.replay import Losses, Sample
from rlfast.utils.arguments.validation import NonNegativeFloat, PositiveInt, UnitFloat, validate_arguments
from rlfast.utils.optim import OptionalOptimizer, descend


@dataclass(kw_only=True)
class R2D2TrainingStats(TrainingStats):
    """The statistics of one gradient step of R2D2."""

    loss: float
    """The loss before the step."""


class R2D2Options(PolicyOptions, total=False):
    """The arguments of :class:`R2D2Policy` without defaults of its own."""

    action_space: Required[Discrete]
    is_double: bool


class R2D2Policy(QLearner):
    r"""Recurrent replay distributed DQN (Kapturowski et al. 2019, *Recurrent Experience Replay in Distributed
    Reinforcement Learning*): recurrent Q-learning from prioritized sequences.

    .. math::
        G_t &= h\Bigl(\sum_{i=0}^{k-1} \gamma^i r_{t+i}
            + \gamma^k\, h^{-1}\bigl(Q^-(s_{t+k}, \arg\max_a Q(s_{t+k}, a))\bigr)\Bigr) \\
        L &= \frac1N \sum w\, \bigl(G_t - Q(s_t, a_t)\bigr)^2, \qquad Q^- \leftarrow Q \text{ every } C \text{ steps}

    (section 2.3), with :math:`h` of :func:`rlfast.functional.sequences.rescaled`. Both networks start from the hidden
    state that was stored with the first step, and process the burn-in before the N steps of the loss (section 3). The
    priority of a sequence is :math:`\eta \max_t |\delta_t| + (1 - \eta)\, \overline{|\delta|}`.

    Returns sum k rewards, at most ``estimation_step``; w are the importance weights of a prioritized buffer, else 1.

    The buffer must have ``unit=Sequence(length, burn_in)``, and ``sampler=Prioritized(alpha, beta)`` for priorities.
    N-step returns end with the sequence. A sequence may begin at any row, and ends with its episode; in the paper,
    sequences begin at every 40th step. There is no ``compile``: a recurrent update is no single graph.

    :param model: called as ``model(obs, state=None, info={})``; returns action values ``[B, actions]`` and the next
        hidden state, as :class:`rlfast.utils.net.common.Recurrent` does, by ``dueling_param`` with two streams as in
        the paper.
    :param discount_factor: discount of future rewards, :math:`\gamma`, in [0, 1]. Default: 0.997.
    :param estimation_step: the largest k, the number of steps to sum rewards over. Default: 5.
    :param target_update_freq: C, number of gradient steps between copies to the target network. Default: 2500.
    :param eta: weight of the largest error in a priority, :math:`\eta`, in [0, 1]. Default: 0.9.
    :param rescaling: :math:`\epsilon` of :math:`h`, at least 0; None for no rescaling of values. Default: 0.001.
    :param max_grad_norm: largest Euclidean norm of the gradient; 0 or None for no limit. Default: None.
    :param options: of :class:`~rlfast.policy.q_learner.QLearner`.
    :raises ValueError: for a value out of range.

    >>> from gymnasium.spaces import Discrete
    >>> from rlfast.data import Batch
    >>> from rlfast.utils.net.common import Recurrent
    >>> from rlfast.utils.optim import adam
    >>> space = Discrete(2)
    >>> policy = R2D2Policy(model=Recurrent(1, 4, 2), optim=adam(1e-4, eps=1e-3), action_space=space)
    >>> policy(Batch(obs=torch.zeros(3, 4), info={})).act.shape
    (3,)
    """

    stats_class = R2D2TrainingStats
    learns_from_sequences = True

    @validate_arguments
    def __init__(
        self,
        *,
        model: nn.Module,
        optim: OptionalOptimizer,
        discount_factor: UnitFloat = 0.997,
        estimation_step: PositiveInt = 5,
        target_update_freq: PositiveInt = 2500,
        eta: UnitFloat = 0.9,
        rescaling: NonNegativeFloat | None = 1e-3,
        max_grad_norm: NonNegativeFloat | None = None,
        **options: Unpack[R2D2Options],
    ) -> None:
        super().__init__(
            model=model,
            optim=optim,
            discount_factor=discount_factor,
            estimation_step=estimation_step,
            target_update_freq=target_update_freq,
            **options,
        )
        self.eta, self.rescaling, self.max_grad_norm = eta, rescaling, max_grad_norm

    def next_value(self, obs_next: object, state: object = None, *draws: torch.Tensor) -> torch.Tensor:
        """Return the value of the observation after the last reward, in the scale of rewards, ``[N]``."""
        q_NA = self.compute_q_value(self.values(obs_next, state, model=self.lagged), action_mask(obs_next))
        act_N = self.greedy_actions(obs_next, state) if self.is_double else q_NA.argmax(dim=1)
        value_N = output_of_actions(q_NA, act_N)
        return value_N if self.rescaling is None else unrescaled(value_N, self.rescaling)

    def gradient_step(self, sample: Sample) -> tuple[Losses, torch.Tensor]:
        """Update the target network if it is due, and do one gradient step on the loss."""
        if sample.is_due:
            self.sync_weight()
        returns_N = sample.returns if self.rescaling is None else rescaled(sample.returns, self.rescaling)
        q_NA = self.values(sample.obs, sample.state, sample.batch)
        error_N = td_error(q_NA, sample.act, returns_N)
        loss = squared_loss(error_N, sample.weight)
        descend(loss, self.optim, self.max_grad_norm)
        return {"loss": loss.detach()}, error_N.detach()
