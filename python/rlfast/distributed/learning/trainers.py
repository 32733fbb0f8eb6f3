"""The trainers of runs that are spread over processes: those of one process, with reports."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from rlfast.data import ReplayBuffer
from rlfast.distributed.cluster.actors import Actor, Cluster
from rlfast.distributed.collectors.base import Collectors
from rlfast.distributed.learning.team import LearnerLost, Team
from rlfast.policy import TrainingStats
from rlfast.trainer import OffpolicyTrainer, OnpolicyTrainer
from rlfast.trainer.base import BaseTrainer

SCOPE = "ray"
"""The scope of entries of logs."""

_INTERVAL = 2.0
"""Seconds between two entries of a log."""


class _Reporting(BaseTrainer):
    """Writes figures of the collectors and shards to the run's log, and to the cluster's dashboard."""

    _cluster: Cluster | None = None
    _reported: tuple[float, int] | None = None

    def report_to(self, cluster: Cluster) -> None:
        """Shows the figures on a cluster's dashboard, too.

        :param cluster: the cluster.
        """
        self._cluster = cluster

    def training_step(self) -> Any:
        """Collects and updates; see :meth:`BaseTrainer.training_step`."""
        collectors: Any = self.train_collector
        collectors.gradient_step = self.gradient_step
        result = super().training_step()
        now = time.monotonic()
        if self._reported is None:
            self._reported = (now, self.env_step)
        elif now - self._reported[0] >= _INTERVAL:
            self._report(collectors, now)
        return result

    def _report(self, collectors: Collectors, now: float) -> None:
        assert self._reported is not None  # noqa: S101 (checked by the caller)
        since, steps = self._reported
        self._reported = (now, self.env_step)
        speed = (self.env_step - steps) / (now - since)
        figures = {"steps_per_second": speed, **collectors.figures(), **self._figures_beside()}
        self.logger.write(
            f"{SCOPE}/env_step", self.env_step, {f"{SCOPE}/{name}": value for name, value in figures.items()}
        )
        if self._cluster is not None:
            for name, value in figures.items():
                self._cluster.gauge(name, value)

    def _figures_beside(self) -> dict[str, float]:
        """Returns figures beside those of the collectors."""
        return {}


class ReplayTrainer(_Reporting, OffpolicyTrainer):
    """Off-policy training from shards that several collectors fill, by one or several learners."""

    _team: Team | None = None

    def learn_with(self, team: Team) -> None:
        """Makes gradient steps with other learners, and keeps the state that they go back to with each checkpoint.

        :param team: the other learners.
        """
        self._team, save = team, self.save_checkpoint_fn

        def save_and_keep(epoch: int, env_step: int, gradient_step: int) -> str:
            team.keep(gradient_step)
            return "" if save is None else save(epoch, env_step, gradient_step)

        self.save_checkpoint_fn = save_and_keep

    def _sample_and_update(self, buffer: ReplayBuffer, times: int = 1, *, following: int = 0) -> TrainingStats:
        team, own = self._team, partial(super()._sample_and_update, buffer, times, following=following)
        if team is None:
            return own()
        shards: list[Actor] = buffer.shards  # of a ShardedBuffer
        while True:
            try:
                return team.update(own, times, self.env_step, shards)
            except LearnerLost as error:
                team.recover(error, self.gradient_step)

    def _figures_beside(self) -> dict[str, float]:
        return {} if self._team is None else {"learners_lost": float(self._team.lost)}


class RolloutTrainer(_Reporting, OnpolicyTrainer):
    """On-policy training from the roll-outs of several collectors."""
