"""Offline training: from a fixed set of transitions."""

from __future__ import annotations

from rlfast.data.stats import CollectStatsBase
from rlfast.policy import TrainingStats
from rlfast.trainer._metrics import average
from rlfast.trainer._parts import check_learning
from rlfast.trainer.base import BaseTrainer


class OfflineTrainer(BaseTrainer):
    """Makes ``step_per_epoch`` gradient steps in an epoch, each on a new sample of ``buffer``.

    The number of sampled rows is logged as the environment step. The statistics of an epoch are averages over all its
    updates. The arguments are those of :class:`BaseTrainer`; with a ``train_collector``, the steps of an epoch are
    environment steps, and a gradient step follows each collect.

    :raises ValueError: the policy learns from roll-outs; there is no ``buffer``, or it is empty; or there is a
        ``train_collector``, and both or none of ``step_per_collect`` and ``episode_per_collect`` are given.
    """

    ignored = ("repeat_per_collect", "update_per_step", "data_share")

    def _check(self) -> None:
        super()._check()
        if self.buffer is None:
            raise ValueError("offline training needs a buffer to learn from")
        if not len(self.buffer):
            raise ValueError("the buffer is empty: offline training learns from transitions that are there")
        check_learning(self.policy, "transitions", "OfflineTrainer")
        if self.train_collector is not None:
            self.check_portion()

    def _zero(self) -> None:
        super()._zero()
        self._updates: list[TrainingStats] = []  # the updates of the running epoch

    def _begin_epoch(self) -> None:
        super()._begin_epoch()
        self._updates.clear()

    def policy_update_fn(self, collect_stats: CollectStatsBase | None = None) -> TrainingStats | None:  # noqa: ARG002
        """Makes one gradient step.

        :param collect_stats: ignored.
        :return: its statistics.
        """
        assert self.buffer is not None  # noqa: S101 (checked at construction)
        update = self._sample_and_update(self.buffer, following=int(self._another_update_follows()))
        if self.train_collector is None:
            self.env_step = self.gradient_step * (self.batch_size or len(self.buffer))
        self._updates.append(update)
        return update

    def _another_update_follows(self) -> bool:
        """Whether another gradient step from the unchanged buffer will certainly follow this one."""
        if self.train_collector is not None or self._epoch_step is None or self._stop_asked or self.buffer is None:
            return False
        rows = (self.gradient_step + 1) * (self.batch_size or len(self.buffer))
        ends = self.max_step is not None and rows >= self.max_step
        return not ends and self._epoch_step + 1 < (self.step_per_epoch or 0)

    def _train_epoch(self) -> bool:
        whole = super()._train_epoch()
        if self._updates:
            self._last_update = average(self._updates)
        return whole
