from dataclasses import dataclass
from typing import TypeVar

import torch

from rlfast.functional.losses import huber_loss, max_value, squared_loss, td_error
from rlfast.policy.base import TrainingStats
from rlfast.policy.components.action_masks import action_mask, legal_values
from rlfast.policy.q_learner import QLearner, output_of_actions
from rlfast.policy.replay import Losses, Sample
from rlfast.utils.optim import descend


@dataclass(kw_only=True)
class DQNTrainingStats(TrainingStats):
    """The statistics of one gradient step of DQN."""

    loss: float
    """The loss before the step."""


TDQNTrainingStats = TypeVar("TDQNTrainingStats", bound=DQNTrainingStats)


class DQNPolicy(QLearner):
    r"""Deep Q-learning (Mnih et al. 2015, doi:10.1038/nature14236), by default in its double form (arXiv:1509.06461).

    .. math::
        G_t &= \sum_{i=0}^{k-1} \gamma^i r_{t+i}
            + \gamma^k\, Q^-\bigl(s_{t+k}, \arg\max_a Q(s_{t+k}, a)\bigr) \\
        L &= \frac1B \sum w\, \ell\bigl(G_t - Q(s_t, a_t)\bigr), \qquad Q^- \leftarrow Q \text{ every } C \text{ steps}

    with :math:`\ell` the square or Huber's function and w the weights of prioritized replay (arXiv:1511.05952), 1
    without it. A dueling network (arXiv:1511.06581) needs only another model.

    :param is_double: whether the trained network chooses the action whose value the target network estimates. Default:
        True.
    :param clip_loss_grad: whether to use Huber's function, whose gradient is at most 1, instead of the square. Default:
        False.
    :param compile: whether targets, loss, gradients and step are compiled into one graph, which is about twice as fast,
        after some ten seconds of compilation, and on CUDA recorded as a CUDA graph. It needs observations that are
        arrays, a network without recurrence, Adam, AdamW, RMSprop or SGD and, on the CPU, PyTorch 2.11. Default: False.
    :param options: of :class:`~rlfast.policy.q_learner.QLearner`.
    :raises ValueError: for a value out of range, or an update that cannot be compiled.

    >>> from gymnasium.spaces import Discrete
    >>> from rlfast.data import Batch
    >>> from rlfast.utils.net.common import Net
    >>> from rlfast.utils.optim import adam
    >>> space = Discrete(2)
    >>> policy = DQNPolicy(model=Net(4, 2, [64]), optim=adam(1e-3), action_space=space, target_update_freq=100)
    >>> policy(Batch(obs=torch.zeros(3, 4), info={})).act.shape
    (3,)
    """

    stats_class = DQNTrainingStats
    learns_from_sequences = True

    def next_value(self, obs_next: object, state: object = None, *draws: torch.Tensor) -> torch.Tensor:
        """Return the value of the observation after the last reward, ``[B]``."""
        q_BA = self.values(obs_next, state, model=self.lagged)
        if not self.is_double:
            return max_value(legal_values(q_BA, action_mask(obs_next)))
        return output_of_actions(q_BA, self.next_actions(obs_next, state, q_BA))  # arXiv:1509.06461, equation 4

    def gradient_step(self, sample: Sample) -> tuple[Losses, torch.Tensor]:
        """Update the target network if it is due, and do one gradient step on the loss."""
        if sample.is_due:
            self.sync_weight()
        q_BA = self.values(sample.obs, sample.state, sample.batch)
        error_B = td_error(q_BA, sample.act, sample.returns)
        loss = (huber_loss if self.clip_loss_grad else squared_loss)(error_B, sample.weight)
        descend(loss, self.optim)
        return {"loss": loss.detach()}, error_B.detach()
