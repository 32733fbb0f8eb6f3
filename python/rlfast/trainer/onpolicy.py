"""On-policy training: from the transitions of the last collect only."""

from __future__ import annotations

from contextlib import nullcontext

from rlfast.data.collect.checks import row_capacities
from rlfast.data.collect.collector import Collector
from rlfast.data.stats import CollectStats, CollectStatsBase
from rlfast.policy import TrainingStats
from rlfast.trainer._parts import check_learning
from rlfast.trainer.base import BaseTrainer
from rlfast.utils.arguments.checks import ArgumentError


class OnpolicyTrainer(BaseTrainer):
    """Alternates collects and updates: an update uses the whole buffer, which is emptied afterwards.

    The policy makes ``repeat_per_collect`` passes over the buffer, in mini-batches of ``batch_size`` (0 or None: all
    rows at once). Rows that do not fill a last mini-batch are added to the one before it. Episodes that are running
    when the buffer is emptied keep the return and the length that they have so far.

    Every row of a collect is used. If an episode is longer than the buffer can hold, the collect raises before it
    overwrites a row.

    The arguments are those of :class:`BaseTrainer`.

    :raises ValueError: the policy learns from sampled transitions, there is no ``train_collector`` or no
        ``repeat_per_collect``, both or none of ``step_per_collect`` and ``episode_per_collect`` are given, or the
        buffer has no room for ``step_per_collect`` steps.
    """

    ignored = ("update_per_step", "prefetch", "data_share")

    def _check(self) -> None:
        super()._check()
        if self.train_collector is None:
            raise ArgumentError("on-policy training needs a train_collector")
        check_learning(self.policy, "rollouts", "OnpolicyTrainer")
        self.check_portion()
        if self.repeat_per_collect is None:
            raise ValueError("repeat_per_collect is needed: how many passes over what was collected?")
        if self.step_per_collect is not None:
            self._check_capacity(self.train_collector, self.step_per_collect)

    def train_step(self) -> tuple[CollectStats, bool]:
        """Collects once; see :meth:`BaseTrainer.train_step`.

        :raises ValueError: the buffer has no room for all of it.
        """
        no_overwriting = getattr(self.train_collector, "without_overwriting", None)
        with nullcontext() if no_overwriting is None else no_overwriting():
            return super().train_step()

    @staticmethod
    def _check_capacity(collector: Collector, n_step: int) -> None:
        capacities = row_capacities(getattr(collector, "buffer", None), getattr(collector, "env_num", None))
        if capacities is None:
            return
        room, needed = int(capacities.min()), -(-n_step // len(capacities))
        if needed > room:
            raise ValueError(
                f"{n_step} steps in {len(capacities)} environments do not fit into the buffer, which has room for "
                f"{room} of the {needed} in each: make it larger, or collect less at a time"
            )

    def policy_update_fn(self, result: CollectStatsBase | None = None) -> TrainingStats | None:  # noqa: ARG002
        """Updates the policy with all rows of the buffer, and empties it.

        :param result: ignored.
        :return: the statistics of the update.
        """
        assert self.train_collector is not None  # noqa: S101 (checked at construction)
        assert self.repeat_per_collect is not None  # noqa: S101 (checked at construction)
        buffer = self.train_collector.buffer
        batches = max(1, len(buffer) // self.batch_size) if self.batch_size else 1
        update = self.policy.update(
            sample_size=0, buffer=buffer, batch_size=self.batch_size, repeat=self.repeat_per_collect
        )
        self.train_collector.reset_buffer(keep_statistics=True)
        made = getattr(update, "gradient_steps", None)  # of a policy that may end its passes early
        return self._record([update], gradient_steps=self.repeat_per_collect * batches if made is None else int(made))
