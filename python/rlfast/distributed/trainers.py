"""The trainers of runs that are spread over processes: those of one process, with reports."""

from __future__ import annotations

import time
from typing import Any

from rlfast.distributed.actors import Cluster
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

    def _report(self, collectors: Any, now: float) -> None:
        assert self._reported is not None  # noqa: S101 (checked by the caller)
        since, steps = self._reported
        self._reported = (now, self.env_step)
        figures = {"steps_per_second": (self.env_step - steps) / (now - since), **collectors.figures()}
        self.logger.write(
            f"{SCOPE}/env_step", self.env_step, {f"{SCOPE}/{name}": value for name, value in figures.items()}
        )
        if self._cluster is not None:
            for name, value in figures.items():
                self._cluster.gauge(name, value)


class ReplayTrainer(_Reporting, OffpolicyTrainer):
    """Off-policy training from shards that several collectors fill."""


class RolloutTrainer(_Reporting, OnpolicyTrainer):
    """On-policy training from the roll-outs of several collectors."""
