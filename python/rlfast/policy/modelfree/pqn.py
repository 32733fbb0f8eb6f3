from dataclasses import dataclass
from typing import Any, ClassVar, Required, Unpack

import numpy as np
import torch
from gymnasium.spaces import Discrete
from numpy.typing import NDArray
from torch import nn

from rlfast.data import ReplayBuffer
from rlfast.data.batch.batch import wrap
from rlfast.data.stats import SequenceSummaryStats
from rlfast.data.types import RolloutBatchProtocol
from rlfast.functional.losses import max_value, squared_loss, td_error
from rlfast.policy.base import LearnsFrom, TrainingStats
from rlfast.policy.components.action_masks import action_mask, legal_values
from rlfast.policy.components.batches import moved_once
from rlfast.policy.components.memory.hidden_state import add_stored_state, as_returned, stored_state
from rlfast.policy.components.minibatches import check_passes, minibatches_of, summaries_of
from rlfast.policy.components.returns import Index, check_indices
from rlfast.policy.components.shortcuts import Shortcut, Shortcuts
from rlfast.policy.q_learner import QLearner
from rlfast.policy.replay import Losses, ReplayOptions, Sample
from rlfast.utils.arguments.validation import NonNegativeFloat, PositiveInt, UnitFloat, validate_arguments
from rlfast.utils.optim import OptionalOptimizer, descend


@dataclass(kw_only=True)
class PQNTrainingStats(TrainingStats):
    """Statistics of the gradient steps on one roll-out, before each step."""

    loss: SequenceSummaryStats


class PQNOptions(ReplayOptions, total=False):
    """The arguments of :class:`~rlfast.policy.q_learner.QLearner` that apply to :class:`PQNPolicy`."""

    model: Required[nn.Module]
    optim: Required[OptionalOptimizer]
    action_space: Required[Discrete]
    discount_factor: float


class PQNPolicy(QLearner):
    r"""Parallelised Q-network (Gallici et al., arXiv:2407.04811): Q-learning without replay or target network.

    .. math::
        L = \frac1B \sum \bigl(G^\lambda_t - Q(s_t, a_t)\bigr)^2, \qquad
        G^\lambda_t = r_t + \gamma \Bigl((1 - \lambda) \max_{a'} Q(s_{t+1}, a') + \lambda\, G^\lambda_{t+1}\Bigr)

    (section 4.3, algorithm 1.) The policy learns from each roll-out of many environments in several passes.
    Layer normalization in the network, ``Net(..., norm_layer=nn.LayerNorm)``, keeps values from growing without bound
    (section 3). The algorithm is on-policy: the buffer holds one roll-out, and
    :class:`rlfast.trainer.OnpolicyTrainer` trains the policy.

    :param model: called as ``model(obs, state=None, info={})``; returns ``[B, actions]`` and the next hidden state.
    :param q_lambda: :math:`\lambda`, 0 for one-step returns, 1 for those of whole roll-outs. Default: 0.65.
    :param max_batchsize: the largest batch of the network while a roll-out is prepared. Default: 256.
    :param max_grad_norm: largest Euclidean norm of the gradient; 0 or None for no limit. Default: 10.
    :param options: of :class:`~rlfast.policy.q_learner.QLearner`.
    :raises ValueError: for a value out of range.

    >>> from gymnasium.spaces import Discrete
    >>> from torch import nn
    >>> from rlfast.utils.net.common import Net
    >>> from rlfast.utils.optim import adam
    >>> net = Net(4, 2, [64], norm_layer=nn.LayerNorm)
    >>> PQNPolicy(model=net, optim=adam(1e-3), action_space=Discrete(2)).q_lambda
    0.65
    """

    stats_class = PQNTrainingStats
    shortcuts: ClassVar[Shortcuts] = {"stored_of": Shortcut(("next_value", "values", "compute_q_value"), "_nothing_of")}

    @validate_arguments
    def __init__(
        self,
        *,
        q_lambda: UnitFloat = 0.65,
        max_batchsize: PositiveInt = 256,
        max_grad_norm: NonNegativeFloat | None = 10.0,
        **options: Unpack[PQNOptions],
    ) -> None:
        super().__init__(**options)
        self.q_lambda, self.max_batchsize, self.max_grad_norm = q_lambda, max_batchsize, max_grad_norm

    @property
    def learns_from(self) -> LearnsFrom | None:
        """Roll-outs: the algorithm has no replay."""
        return "rollouts"

    def next_value(self, obs_next: object, state: object = None, *draws: torch.Tensor) -> torch.Tensor:
        """Return the values of the observations after each reward, ``[B]``."""
        return max_value(legal_values(self.values(obs_next, state), action_mask(obs_next)))

    def _nothing_of(self, q_BA: torch.Tensor) -> dict[str, Any]:
        """Store nothing, in a class with other values."""
        return {}

    def stored_of(self, q_BA: torch.Tensor) -> dict[str, Any]:
        """Store the value of each observation, which the row before it needs."""
        return {"value": q_BA.max(dim=1).values}

    def process_fn(self, batch: RolloutBatchProtocol, buffer: ReplayBuffer, indices: Index) -> Any:
        r"""Add the :math:`Q(\lambda)` returns of a roll-out, ``[B]`` (algorithm 1).

        Values that were stored while acting, by the weights of that time, are not computed again.

        :param batch: rows in order of time, as ``sample(0)`` returns them.
        :raises ValueError: if the numbers of rows and indices differ.
        """
        check_indices(batch, indices)
        rollout: Any = batch
        add_stored_state(rollout, buffer, indices)
        rollout.obs = moved_once(batch.obs, self._device)
        state_next = stored_state(batch, buffer, indices, after=self.state_after)
        values = next_values_of(buffer, indices)
        unknown = np.flatnonzero(np.isnan(values))
        with torch.no_grad():
            for rows in (unknown[i : i + self.max_batchsize] for i in range(0, len(unknown), self.max_batchsize)):
                state = as_returned(None if state_next is None else state_next[rows])
                value = self.next_value(rollout.obs_next[rows], state)
                values[rows] = value.double().cpu().numpy()
        returns, _ = self.compute_episodic_return(rollout, buffer, indices, values, None, self.gamma, self.q_lambda)
        rollout.returns = torch.as_tensor(returns, dtype=value.dtype, device=value.device)
        return rollout

    def learn(self, batch: Any, batch_size: int | None, repeat: int, *args: Any, **kwargs: Any) -> Any:
        """Do a gradient step for each minibatch, in several passes over a roll-out.

        :param batch: the result of :meth:`process_fn`, of N rows.
        :param batch_size: number of rows of a minibatch; the last one also has the remaining rows. None for all rows.
        :param repeat: number of passes, each in a new order.
        """
        check_passes(batch_size, repeat)
        names = ("obs", "info", "state", "act", "returns")
        rows = wrap({name: batch[name] for name in names if name in batch})
        step = self.gradient_step if self._compiled is None else self._compiled
        losses: list[Losses] = []
        for _ in range(repeat):
            order = self.rng.permutation(len(rows.returns))
            parts = minibatches_of(len(order), batch_size)
            losses += [step(self._as_sample(rows[order[part]]))[0] for part in parts]
        return PQNTrainingStats(loss=summaries_of(losses)["loss"])

    def gradient_step(self, sample: Sample) -> tuple[Losses, torch.Tensor | None]:
        """Do one gradient step on the loss of a minibatch."""
        q_BA = self.values(sample.obs, sample.state, sample.batch)
        loss = squared_loss(td_error(q_BA, sample.act, sample.returns))
        descend(loss, self.optim, self.max_grad_norm)
        return {"loss": loss.detach()}, None

    def _whole_update(self, sample: Sample) -> tuple[Losses, torch.Tensor | None]:
        """Do the gradient step alone, since the returns are those of the roll-out."""
        return self.gradient_step(sample)


def next_values_of(buffer: ReplayBuffer, indices: Index) -> NDArray[np.float64]:
    """Return the values of the observations after rows that were stored with the rows that follow.

    :param buffer: the buffer that holds the rows.
    :param indices: rows in order of time, ``[B]``.
    :return: ``[B]``; NaN where no row follows, as at the end of an episode, or where none was stored.
    """
    values = np.full(len(indices), np.nan)
    stored = buffer.get(indices, "policy", (), stack_num=1)
    if "value" in stored:
        before = np.flatnonzero(np.asarray(buffer.next(indices))[:-1] == indices[1:])
        values[before] = stored.value[before + 1]
        values[values == 0] = np.nan  # the actions of such rows were not chosen by values
    return values
