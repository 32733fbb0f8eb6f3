"""Off-policy training: from a replay buffer that is filled meanwhile."""

from __future__ import annotations

import math
from typing import cast

from rlfast.data import MixedReplayBuffer, ReplayBuffer
from rlfast.data.stats import CollectStatsBase
from rlfast.policy import TrainingStats
from rlfast.trainer._parts import check_learning
from rlfast.trainer.base import BaseTrainer
from rlfast.utils.arguments.checks import ArgumentError

_ROUNDING = 1e-6
"""The tolerance for rounding errors in sums of fractions that should be whole numbers."""


class OffpolicyTrainer(BaseTrainer):
    """Alternates collects and gradient steps, ``update_per_step`` of them for each environment step.

    Each gradient step takes a new sample from the buffer. The arguments are those of :class:`BaseTrainer`. After a
    collect, the number of gradient steps is rounded down; the remainder is carried over to the next collect, so that
    the ratio holds over the whole run. With a ``buffer`` beside that of the collector, a part of each sample is drawn
    from it; see :class:`~rlfast.data.MixedReplayBuffer`.

    :raises ValueError: the policy learns from roll-outs, there is no ``train_collector``, both or none of
        ``step_per_collect`` and ``episode_per_collect`` are given, or ``update_per_step`` is not positive;
        or ``buffer`` cannot be mixed with that of the ``train_collector``.

    >>> import gymnasium as gym
    >>> from rlfast.data import Collector, VectorReplayBuffer
    >>> from rlfast.env import DummyVectorEnv
    >>> from rlfast.policy import DQNPolicy
    >>> from rlfast.utils.net.common import Net
    >>> from rlfast.utils.optim import adam
    >>> envs = DummyVectorEnv([lambda: gym.make("CartPole-v1")] * 2)
    >>> policy = DQNPolicy(model=Net(4, 2, [8]), optim=adam(1e-3), action_space=gym.spaces.Discrete(2))
    >>> trainer = OffpolicyTrainer(
    ...     policy=policy,
    ...     max_epoch=2,
    ...     batch_size=8,
    ...     train_collector=Collector(policy, envs, VectorReplayBuffer(1000, 2), exploration_noise=True),
    ...     step_per_epoch=40,
    ...     step_per_collect=10,
    ...     update_per_step=0.2,
    ...     show_progress=False,
    ... )
    >>> for epoch in trainer:
    ...     print(epoch.epoch, epoch.info_stat.train_step, epoch.info_stat.gradient_step)
    1 40 8
    2 80 16
    """

    ignored = ("repeat_per_collect",)
    _mixed: MixedReplayBuffer | None = None

    def _check(self) -> None:
        super()._check()
        if self.train_collector is None:
            raise ArgumentError("off-policy training needs a train_collector")
        check_learning(self.policy, "transitions", "OffpolicyTrainer")
        self.check_portion()
        if self.update_per_step <= 0:
            raise ValueError(f"update_per_step must be positive, or nothing is learned, got {self.update_per_step}")
        self._replay()  # raises if the buffers cannot be mixed

    def _replay(self) -> ReplayBuffer:
        """Returns what updates sample from: the collector's buffer, or with ``buffer`` the two mixed."""
        assert self.train_collector is not None  # noqa: S101 (checked at construction)
        collected, given = self.train_collector.buffer, self.buffer
        if given is None or given is collected:
            return collected
        if self._mixed is None or (self._mixed.collected, self._mixed.data) != (collected, given):
            self._mixed = MixedReplayBuffer(collected, given, data_share=self.data_share)
        return cast("ReplayBuffer", self._mixed)

    def policy_update_fn(self, collect_stats: CollectStatsBase) -> TrainingStats | None:
        """Makes ``update_per_step * n_collected_steps`` gradient steps.

        :param collect_stats: the statistics of the collect.
        :return: the averaged statistics of the updates; None if there was none to make.
        """
        debt = self._update_debt + self.update_per_step * collect_stats.n_collected_steps
        times = math.floor(debt + _ROUNDING)
        self._update_debt = debt - times
        return self._sample_and_update(self._replay(), times) if times else None
