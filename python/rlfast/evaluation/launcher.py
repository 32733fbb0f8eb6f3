"""Launchers, which run several experiments one after the other or side by side."""

from __future__ import annotations

import logging
import multiprocessing
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, Protocol

from rlfast.data import InfoStats
from rlfast.utils.runtime.extras import needed_by

with needed_by("rlfast.evaluation.launcher"):
    import cloudpickle

log = logging.getLogger(__name__)


class RunsOnce(Protocol):
    """What launchers ask of an experiment."""

    def run(self) -> Any:
        """Runs it.

        :return: an object whose ``trainer_result`` is the ``InfoStats`` of training, or None.
        """


Runner = Callable[[Any], InfoStats | None]


def run_experiment(experiment: RunsOnce) -> InfoStats | None:
    """Runs an experiment.

    :param experiment: the experiment.
    :return: totals and timing of training; None if it did not train.
    """
    result: InfoStats | None = experiment.run().trainer_result
    return result


@dataclass
class JoblibConfig:
    """How :class:`JoblibExpLauncher` runs experiments."""

    n_jobs: int = -1
    """How many run at a time; -1 for as many as there are processors."""
    backend: Literal["loky", "multiprocessing", "threading"] | None = "loky"
    """Has no effect: experiments run in processes, whatever it says, because they would share the
    random numbers of torch in threads."""
    verbose: int = 10
    """Whether the end of each experiment is logged: 0 for no."""


class ExpLauncher(ABC):
    """The interface of launchers.

    :param experiment_runner: runs one experiment, and returns what :meth:`launch` returns for it.
    """

    def __init__(self, experiment_runner: Runner = run_experiment) -> None:
        self.experiment_runner = experiment_runner

    @abstractmethod
    def _launch(self, experiments: Sequence[Any]) -> list[InfoStats | Exception | None]:
        """Returns the result of each experiment, or the exception that it raised."""

    def launch(self, experiments: Sequence[Any]) -> list[InfoStats | None]:
        """Runs experiments. One that fails is logged and left out of the result.

        :param experiments: the experiments. A single one runs in this process, and what it raises is raised.
        :return: the results of those that did not fail, in their order.
        :raises RuntimeError: all of them failed.
        :raises ValueError: there is no experiment.
        """
        if not experiments:
            raise ValueError("there is no experiment to launch")
        if len(experiments) == 1:
            return [self.experiment_runner(experiments[0])]
        results = self._launch(experiments)
        failed = [(number, result) for number, result in enumerate(results) if isinstance(result, Exception)]
        for number, error in failed:
            log.error("experiment %d of %d failed", number + 1, len(experiments), exc_info=error)
        if len(failed) == len(experiments):
            raise RuntimeError(f"all {len(failed)} experiments failed; the first with {failed[0][1]!r:.200}")
        return [result for result in results if not isinstance(result, Exception)]


class SequentialExpLauncher(ExpLauncher):
    """Runs experiments one after the other, in this process."""

    def _launch(self, experiments: Sequence[Any]) -> list[InfoStats | Exception | None]:
        return [_attempt(self.experiment_runner, experiment) for experiment in experiments]


class JoblibExpLauncher(ExpLauncher):
    """Runs experiments side by side in processes, which share the processors.

    :param joblib_cfg: how many at a time. Default: as many as there are processors.
    :param experiment_runner: see :class:`ExpLauncher`.
    :raises ValueError: ``joblib_cfg.n_jobs`` is neither -1 nor at least 1.
    """

    def __init__(self, joblib_cfg: JoblibConfig | None = None, experiment_runner: Runner = run_experiment) -> None:
        super().__init__(experiment_runner)
        self.joblib_cfg = JoblibConfig() if joblib_cfg is None else joblib_cfg
        if self.joblib_cfg.n_jobs < 1 and self.joblib_cfg.n_jobs != -1:
            raise ValueError(f"n_jobs must be at least 1, or -1 for all processors, got {self.joblib_cfg.n_jobs}")
        if self.joblib_cfg.backend == "threading":
            warnings.warn("experiments run in processes: in threads they would share random numbers", stacklevel=2)

    def _launch(self, experiments: Sequence[Any]) -> list[InfoStats | Exception | None]:
        config = self.joblib_cfg
        wanted = (os.cpu_count() or 1) if config.n_jobs == -1 else config.n_jobs
        workers = min(wanted, len(experiments))
        context = multiprocessing.get_context("spawn")  # a fork would inherit threads of torch that do not run in it
        results: list[InfoStats | Exception | None] = []
        with ProcessPoolExecutor(workers, context, _limit_threads, (max(1, (os.cpu_count() or 1) // workers),)) as pool:
            # what a script defines itself can be pickled by value only
            tasks = [cloudpickle.dumps((self.experiment_runner, experiment)) for experiment in experiments]
            for number, future in enumerate([pool.submit(_in_child, task) for task in tasks]):
                try:
                    results.append(future.result())
                except Exception as error:  # the process ended
                    results.append(error)
                if config.verbose:
                    log.info("experiment %d of %d ended", number + 1, len(tasks))
        return results


def _attempt(runner: Runner, experiment: object) -> InfoStats | Exception | None:
    try:
        return runner(experiment)
    except Exception as error:
        return error


def _limit_threads(number: int) -> None:
    """Tells torch, which the process has not imported yet, its number of threads."""
    os.environ.setdefault("OMP_NUM_THREADS", str(number))


def _in_child(task: bytes) -> InfoStats | Exception | None:
    runner, experiment = cloudpickle.loads(task)
    result = _attempt(runner, experiment)
    if isinstance(result, Exception):
        try:
            cloudpickle.loads(cloudpickle.dumps(result))
        except Exception:  # an exception with a constructor of its own
            return RuntimeError(f"{type(result).__name__}: {result}")
    return result


class RegisteredExpLauncher(Enum):
    """The launchers by name."""

    joblib = "joblib"
    sequential = "sequential"

    def create_launcher(self) -> ExpLauncher:
        """Returns a launcher of this kind."""
        return JoblibExpLauncher() if self is RegisteredExpLauncher.joblib else SequentialExpLauncher()
