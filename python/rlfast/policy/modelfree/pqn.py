from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import torch
from torch import nn

from rlfast.data import to_torch
from rlfast.data.stats import SequenceSummaryStats
from rlfast.functional.losses import max_value, squared_loss, td_error
from rlfast.policy.base import LearnsFrom, TLearningRateScheduler, TrainingStats
from rlfast.policy.components.action_masks import action_mask, legal_values
from rlfast.policy.components.memory.hidden_state import add_stored_state, stored_state
from rlfast.policy.components.minibatches import (
    check_passes,
    minibatches_of,
    rows_of,
    shuffled_minibatches,
    summaries_of,
)
from rlfast.policy.components.returns import Index, check_indices
from rlfast.policy.learners.discrete.q_learner import QLearner
from rlfast.policy.learners.replay_learner import Losses, Sample
from rlfast.utils.arguments.validation import NonNegativeFloat, PositiveInt, UnitFloat, validate_arguments
from rlfast.utils.optim import OptimizerFactory, descend

if TYPE_CHECKING:
    from rlfast.data import ReplayBuffer
    from rlfast.data.types import RolloutBatchProtocol


@dataclass(kw_only=True)
class PQNTrainingStats(TrainingStats):
    """Statistics of the gradient steps on one roll-out, before each step."""

    loss: SequenceSummaryStats


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
    :param optim: an optimizer of ``model``, a factory, or None for a policy that only acts.
    :param action_space: action space of one environment. A space that is not ``Discrete`` causes a warning.
    :param discount_factor: discount of future rewards, :math:`\gamma`, in [0, 1]. Default: 0.99.
    :param q_lambda: :math:`\lambda`, 0 for one-step returns, 1 for those of whole roll-outs. Default: 0.65.
    :param max_batchsize: the largest batch of the network while a roll-out is prepared. Default: 256.
    :param max_grad_norm: largest Euclidean norm of the gradient; 0 or None for no limit. Default: 10.
    :param observation_space: observation space of one environment. It is kept, but not used. Default: None.
    :param lr_scheduler: a schedule that takes a step after each update. Default: None.
    :param compile: whether a gradient step is compiled into one graph; see :class:`DQNPolicy`. Default: False.
    :raises ValueError: for a value out of range.

    >>> from rlfast.utils.net.common import Net
    >>> from rlfast.utils.optim import adam
    >>> net = Net(4, 2, [64], norm_layer=nn.LayerNorm)
    >>> PQNPolicy(model=net, optim=adam(1e-3), action_space=gym.spaces.Discrete(2)).q_lambda
    0.65
    """

    stats_class = PQNTrainingStats

    @validate_arguments
    def __init__(
        self,
        *,
        model: nn.Module,
        optim: torch.optim.Optimizer | OptimizerFactory | None,
        action_space: gym.Space[Any],
        discount_factor: UnitFloat = 0.99,
        q_lambda: UnitFloat = 0.65,
        max_batchsize: PositiveInt = 256,
        max_grad_norm: NonNegativeFloat | None = 10.0,
        observation_space: gym.Space[Any] | None = None,
        lr_scheduler: TLearningRateScheduler | None = None,
        compile: bool = False,
    ) -> None:
        super().__init__(
            model=model,
            optim=optim,
            action_space=action_space,
            discount_factor=discount_factor,
            observation_space=observation_space,
            lr_scheduler=lr_scheduler,
        )
        self.q_lambda, self.max_batchsize, self.max_grad_norm = q_lambda, max_batchsize, max_grad_norm
        self._compiled = self.compiled(self.gradient_step, model) if compile else None

    def next_value(self, obs_next: Any, state: Any = None, *draws: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
        """Return the values of the observations after each reward, ``[B]``."""
        return max_value(legal_values(self.values(obs_next, state), action_mask(obs_next)))

    def gradient_step(self, sample: Sample) -> tuple[Losses, torch.Tensor | None]:
        """Do one gradient step on the loss of a minibatch."""
        q_BA = self.values(sample.obs, sample.state, sample.batch)
        loss = squared_loss(td_error(q_BA, sample.act, sample.returns))
        descend(loss, self.optim, self.max_grad_norm)
        return {"loss": loss.detach()}, None

    @property
    def learns_from(self) -> LearnsFrom | None:
        """Roll-outs: the algorithm has no replay."""
        return "rollouts"

    def process_fn(self, batch: "RolloutBatchProtocol", buffer: "ReplayBuffer", indices: Index) -> Any:
        """Add the returns of a roll-out, ``[B]``, and convert its rows to tensors.

        :param batch: rows in order of time, as ``sample(0)`` returns them.
        :raises ValueError: if the numbers of rows and indices differ.
        """
        check_indices(batch, indices)
        rollout: Any = batch
        if self._compiled is not None:
            self.check_not_replaced()
        if self._known_networks(self.model) and not self.must_call_forward():
            rollout.obs = to_torch(batch.obs, device=self._device)
            rollout.obs_next = to_torch(batch.obs_next, device=self._device)
        add_stored_state(rollout, buffer, indices)
        state_next = stored_state(rollout, buffer, indices, after=self.state_after)
        parts = [slice(i, i + self.max_batchsize) for i in range(0, len(indices), self.max_batchsize)]
        with torch.no_grad():
            values = torch.cat([self.next_value(rollout.obs_next[p], rows_of(state_next, p)) for p in parts])
        returns, _ = self.compute_episodic_return(
            rollout, buffer, indices, values.double().cpu().numpy(), None, self.gamma, self.q_lambda
        )
        rollout.returns = torch.as_tensor(returns, dtype=values.dtype, device=values.device)
        rollout.act = self.actions(rollout.act, values.device)
        return rollout

    def learn(self, batch: Any, batch_size: int | None, repeat: int, *args: Any, **kwargs: Any) -> Any:  # noqa: ARG002
        """Do a gradient step for each minibatch, in several passes over a roll-out.

        :param batch: the result of :meth:`process_fn`, of N rows.
        :param batch_size: number of rows of a minibatch; the last one also has the remaining rows. None for all rows.
        :param repeat: number of passes, each in a new order.
        """
        check_passes(batch_size, repeat)
        losses = [
            (self.gradient_step if self._compiled is None else self._compiled)(sample)[0]
            for _ in range(repeat)
            for sample in self._samples(batch, batch_size)
        ]
        return PQNTrainingStats(loss=summaries_of(losses)["loss"])

    def _samples(self, batch: Any, batch_size: int | None) -> Iterator[Sample]:
        order = self.rng.permutation(len(batch.returns))
        if self.must_call_forward():
            for part in minibatches_of(len(order), batch_size):
                yield self._as_sample(batch[order[part]])
            return
        columns = [batch.get(name) for name in ("obs", "state", "act", "returns")]
        for obs, state, act, returns in shuffled_minibatches(columns, order, batch_size, self._device):
            yield Sample(None, obs, state, act, None, is_due=False, draws=(), returns=returns)
