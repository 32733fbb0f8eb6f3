"""Whole runs, spread over processes or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rlfast.distributed.build import build
from rlfast.experiment import run as experiment
from rlfast.experiment.config import RunConfig
from rlfast.experiment.report.result import RunResult


def train(config: RunConfig) -> RunResult:
    """Trains a policy as :func:`rlfast.experiment.train` does, in the processes that ``config.ray`` names.

    :param config: the settings of the run.
    :return: the result.
    :raises ConfigError: if the settings cannot be run, Ray is not installed, or there is no cluster at the address;
        nothing was started then.
    """
    return experiment.train(config, make_parts=build)


def resume(run_dir: Path, *, allow_import: bool = False, **changes: Any) -> RunResult:
    """Continues a run as :func:`rlfast.experiment.resume` does, in the processes that its settings name.

    Rows that were on their way between processes are not lost: a checkpoint is written once they have arrived. What
    the collectors and the learner do at the same time is not repeated in the same order.

    :param run_dir: the folder of the run.
    :param allow_import: see :func:`rlfast.experiment.resume`.
    :param changes: settings to change, such as ``max_steps`` or ``ray``.
    :return: the result.
    :raises ConfigError: see :func:`rlfast.experiment.resume`.
    """
    return experiment.resume(run_dir, allow_import=allow_import, make_parts=build, **changes)
