"""Learning from what was just collected, and only from that."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from rlfast.data.collect.checks import rooms_of
from rlfast.trainer.base import BaseTrainer

if TYPE_CHECKING:
    from rlfast.data.collect.collector import Collector
    from rlfast.data.stats import CollectStats, CollectStatsBase
    from rlfast.policy import TrainingStats


class OnpolicyTrainer(BaseTrainer):
    """Collects, hands the whole buffer to the policy for one update, and empties it.

    The policy makes ``repeat_per_collect`` passes over the buffer, in mini-batches of ``batch_size`` (0 or None: all
    rows at once). A last mini-batch that is not whole joins the one before, and is not counted as a gradient step of
    its own. Episodes that are running when the buffer is emptied keep their return and length so far.

    All rows of a collect are learned from: where episodes turn out longer than what the buffer can hold of them, the
    collect ends in an error before a row is lost.

    The arguments are those of :class:`BaseTrainer`.

    :raises ValueError: there is no ``train_collector`` or no ``repeat_per_collect``, not exactly one of
        ``step_per_collect`` and ``episode_per_collect``, or the buffer has no room for ``step_per_collect`` steps.
    """

    def _check(self) -> None:
        super()._check()
        if self.train_collector is None:
            raise ValueError("on-policy training needs a train_collector")
        self.check_portion()
        if self.repeat_per_collect is None:
            raise ValueError("repeat_per_collect is needed: how many passes over what was collected?")
        if self.step_per_collect is not None:
            self._check_room(self.train_collector, self.step_per_collect)

    def train_step(self) -> tuple[CollectStats, bool]:
        """Collects once; see :meth:`BaseTrainer.train_step`.

        :raises ValueError: the buffer has no room for all of it.
        """
        lossless = getattr(self.train_collector, "losing_nothing", None)
        with nullcontext() if lossless is None else lossless():
            return super().train_step()

    @staticmethod
    def _check_room(collector: Collector, n_step: int) -> None:
        rooms = rooms_of(getattr(collector, "buffer", None), getattr(collector, "env_num", 1))
        if rooms is None:
            return
        room, each = int(rooms.min()), -(-n_step // len(rooms))
        if each > room:
            raise ValueError(
                f"{n_step} steps in {collector.env_num} environments do not fit into the buffer, which has room for "
                f"{room} of the {each} in each: make it larger, or collect less at a time"
            )

    def policy_update_fn(self, result: CollectStatsBase | None = None) -> TrainingStats | None:  # noqa: ARG002
        """Updates the policy by all rows of the buffer, and empties it.

        :param result: what was collected.
        :return: the update.
        """
        assert self.train_collector is not None  # noqa: S101 (checked at construction)
        assert self.repeat_per_collect is not None  # noqa: S101 (checked at construction)
        buffer = self.train_collector.buffer
        batches = max(1, len(buffer) // self.batch_size) if self.batch_size else 1
        update = self.policy.update(
            sample_size=0, buffer=buffer, batch_size=self.batch_size, repeat=self.repeat_per_collect
        )
        self.train_collector.reset_buffer(keep_statistics=True)
        return self._record([update], gradient_steps=self.repeat_per_collect * batches)
