"""A prioritized replay buffer for Stable-Baselines3, which has none, and a DQN that uses it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch as th
from numpy.typing import ArrayLike, NDArray
from stable_baselines3 import DQN
from stable_baselines3.common.vec_env import VecNormalize

from rlfast.interop._columns import Columns, Index
from rlfast.interop.sb3.nstep import NStepReplayBuffer
from rlfast.interop.sb3.replay import ReplayBuffer
from rlfast.utils.runtime.seeding import draw_seed
from rlfast.utils.warning import warn_user

_FORGOTTEN = 100
"""Samples in a row without new priorities, after which the user is warned."""


class PrioritizedReplayBufferSamples(NamedTuple):
    """The host's ``ReplayBufferSamples`` with importance weights ``[B, 1]`` and the indices of the rows ``[B]``."""

    observations: Any
    actions: th.Tensor
    next_observations: Any
    dones: th.Tensor
    rewards: th.Tensor
    discounts: th.Tensor | None
    weights: th.Tensor
    indices: NDArray[np.int64]


class PrioritizedReplayBuffer(NStepReplayBuffer):
    r"""A replay buffer for Stable-Baselines3 that draws by priority: Schaul et al. 2016, arXiv:1511.05952.

    Row :math:`i` is drawn with probability :math:`p_i^\alpha / \sum_k p_k^\alpha`; a new row has the largest priority
    so far. Samples have two more fields, ``weights`` and ``indices``. :meth:`update_priorities` takes the indices, and
    ignores rows that were overwritten since.

    :param args: as in :class:`ReplayBuffer`; so are ``kwargs``.
    :param alpha: the priority exponent, above 0. Default: 0.6.
    :param beta: the exponent of the importance weights, from 0 to 1. Default: 0.4. :class:`PrioritizedDQN` increases it
        to 1 over the run.
    :param n_steps: the steps of a transition; see :class:`NStepReplayBuffer`. Default: 1.
    :param gamma: the discount factor, which should equal that of the algorithm; used if ``n_steps`` is above 1.
    :raises ValueError: ``alpha`` is not above 0, ``beta`` is below 0, or ``n_steps`` is below 1.
    """

    _samples_without_update = 0

    def __init__(
        self, *args: Any, alpha: float = 0.6, beta: float = 0.4, n_steps: int = 1, gamma: float = 0.99, **kwargs: Any
    ) -> None:
        if not alpha > 0.0:
            raise ValueError(f"alpha must be > 0, got {alpha}; for uniform sampling take ReplayBuffer")
        self.alpha = alpha
        super().__init__(*args, n_steps=n_steps, gamma=gamma, **kwargs)
        self.initial_beta = self.beta = beta

    def _make_columns(self, **priorities: Any) -> Columns:
        return super()._make_columns(alpha=self.alpha, seed=draw_seed(None), **priorities)

    @property
    def beta(self) -> float:
        """The exponent of the importance weights."""
        return self._columns.engine.beta

    @beta.setter
    def beta(self, value: float) -> None:
        if not value >= 0.0:
            raise ValueError(f"beta must be >= 0, got {value}")
        self._columns.engine.beta = value

    @property
    def stale_updates(self) -> int:
        """The number of priorities that were ignored because their rows had been overwritten."""
        return self._columns.engine.stale_updates

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> Any:
        """Draws transitions by priority and with replacement.

        :param batch_size: how many.
        :param env: normalizes observations and rewards, which are stored without normalization; None for no
            normalization.
        :return: :class:`PrioritizedReplayBufferSamples`.
        :raises ValueError: the buffer is empty.
        """
        if not self.size():
            raise ValueError("there is nothing to sample: no transition has been added yet")
        self._samples_without_update += 1
        if self._samples_without_update == _FORGOTTEN:
            warn_user(
                f"{_FORGOTTEN} samples were drawn without update_priorities(), which the host's own algorithms never "
                "call, so all rows have one priority: take PrioritizedDQN, or ReplayBuffer for uniform sampling"
            )
        engine = self._columns.engine
        rows = engine.draw(batch_size)
        weights = engine.weights(rows, normalize=True).astype(np.float32)[:, None]
        fields = self._samples(rows, env)._asdict()
        return PrioritizedReplayBufferSamples(**fields, weights=self.to_torch(weights, copy=False), indices=rows)

    def _samples(self, rows: Index, env: VecNormalize | None) -> Any:
        return super()._samples(rows, env) if self.n_steps > 1 else ReplayBuffer._samples(self, rows, env)

    def update_priorities(self, indices: NDArray[np.int64], td_errors: ArrayLike) -> None:
        r"""Sets priorities to :math:`|\delta|` plus a small constant, so that every row can be drawn.

        :param indices: the indices of a sample.
        :param td_errors: :math:`\delta`, an array or tensor with one for each row.
        :raises ValueError: an error is NaN or infinite, or there are not as many as rows; nothing is changed then.
        """
        self._samples_without_update = 0
        errors = td_errors.detach().cpu().numpy() if isinstance(td_errors, th.Tensor) else np.asarray(td_errors)
        self._columns.engine.update_priority(indices, np.abs(errors.astype(np.float64)).reshape(-1))


class PrioritizedDQN(DQN):
    """Stable-Baselines3's DQN with a prioritized buffer: losses are weighted, and TD errors set the priorities.

    Schaul et al. 2016, arXiv:1511.05952, algorithm 1, but with the host's target, which is not that of double
    Q-learning. ``beta`` increases linearly from that of the buffer to 1 over the run.

    :param args: as in ``stable_baselines3.DQN``; so are ``kwargs``. The default of ``replay_buffer_class`` is
        :class:`PrioritizedReplayBuffer`.
    """

    replay_buffer: PrioritizedReplayBuffer

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("replay_buffer_class", PrioritizedReplayBuffer)
        super().__init__(*args, **kwargs)

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        """See ``stable_baselines3.DQN.train``."""
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        buffer = self.replay_buffer
        buffer.beta = 1 - self._current_progress_remaining * (1 - buffer.initial_beta)
        losses = []
        for _ in range(gradient_steps):
            batch = buffer.sample(batch_size, env=self._vec_normalize_env)
            td_errors, loss = self._weighted_loss(batch)
            buffer.update_priorities(batch.indices, td_errors)
            self.policy.optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            th.nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
            self.policy.optimizer.step()
            losses.append(loss.item())
        self._n_updates += gradient_steps
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.record("train/loss", np.mean(losses))
        self.logger.record("train/beta", buffer.beta)

    def _weighted_loss(self, batch: PrioritizedReplayBufferSamples) -> tuple[th.Tensor, th.Tensor]:
        """Computes the TD errors and the mean of their weighted Huber losses."""
        discounts = self.gamma if batch.discounts is None else batch.discounts
        with th.no_grad():
            next_values = self.q_net_target(batch.next_observations).max(dim=1, keepdim=True).values
            targets = batch.rewards + (1 - batch.dones) * discounts * next_values
        values = self.q_net(batch.observations).gather(1, batch.actions.long())
        loss = th.nn.functional.smooth_l1_loss(values, targets, reduction="none")
        return (targets - values).detach(), (batch.weights * loss).mean()
