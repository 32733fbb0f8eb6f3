"""A pool of runs, each in a process of its own: what ``rlfast train --seeds`` and ``rlfast suite`` train with."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import IO, TYPE_CHECKING

from rlfast.cli.main import guarded
from rlfast.cli.runs.reporting import report
from rlfast.cli.status import seconds_left
from rlfast.experiment.algorithms import algorithm_of, find
from rlfast.experiment.run_dir import is_training
from rlfast.utils.runtime.interrupt import Interrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rlfast.experiment.config import RunConfig

_CHILD = "import sys; from rlfast.cli.runs.pool import child; sys.exit(child(*sys.argv[1:]))"


@dataclass(kw_only=True)
class PooledRun:
    """A run of a pool."""

    label: str
    """What lines of output call it."""
    config: RunConfig
    folder: Path
    resumed: bool = False
    """Whether the folder has a run to continue."""
    process: subprocess.Popen[bytes] | None = None
    shown: IO[str] | None = None
    """What the process writes to stderr."""
    stop_requests: int = 0
    """The number of requests to stop that were sent to the process."""

    @property
    def status(self) -> int | None:
        """The exit status; None before the end, and for a run that never began."""
        return None if self.process is None else self.process.poll()

    def start(self) -> None:
        """Starts the process, which finds modules where this one does, and gets no signals of this one's terminal."""
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "OMP_NUM_THREADS": str(self.config.threads),  # also of libraries that torch does not tell
        }
        settings = [] if self.resumed else [algorithm_of(self.config).name, self.config.to_json()]
        self.shown = tempfile.TemporaryFile("w+")  # noqa: SIM115 (messages() closes it)
        self.process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-P", "-c", _CHILD, str(self.folder), *settings],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self.shown,
            env=environment,
            start_new_session=True,
        )

    def stop(self, times: int) -> None:
        """Requests a running process to stop, until it has got this number of requests: the first closes its input,
        as the system does when this process is killed; the others are signals.
        """
        while self.process is not None and self.process.poll() is None and self.stop_requests < times:
            self.stop_requests += 1
            if self.stop_requests == 1:
                self.close()
            else:
                self.process.terminate()

    def close(self) -> None:
        """Closes the input of the process."""
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()

    def messages(self) -> list[str]:
        """Returns the lines that an ended process has written to stderr, once; of equal lines in a row the first."""
        if self.shown is None:
            return []
        with self.shown as shown:
            shown.seek(0)
            lines = [line.strip().removeprefix("rlfast: ") for line in shown if line.strip()]
        self.shown = None
        return [line for line, _ in groupby(lines)]

    def outcome(self) -> str:
        """Returns what became of the run, in a line."""
        if self.process is None:
            return "not begun"
        status = self.process.returncode
        if status == 130 or (status < 0 and self.stop_requests):
            ended = "interrupted, "
        elif status < 0:
            ended = f"killed by signal {-status}, "
        else:
            ended = "failed, " if status else ""
        test = last_test(self.folder)
        return ended + ("no test" if test is None else f"{test[1]:,.1f} at step {test[0]:,}")


def child(folder: str, algorithm: str | None = None, settings: str = "") -> int:
    """Trains, in a process that :func:`train` has started.

    :param folder: the folder of the run.
    :param algorithm: the name of the algorithm. Default: the run in the folder is continued.
    :param settings: the settings of a new run as JSON.
    :return: the exit status.
    """
    from rlfast.distributed.run import resume
    from rlfast.distributed.run import train as begin

    threading.Thread(target=_stop_with_parent, daemon=True).start()
    if algorithm is None:
        _wait_for_another(Path(folder))
        return guarded("rlfast train", lambda: report(lambda: resume(Path(folder))))
    config = find(algorithm).config.from_json(settings)
    return guarded("rlfast train", lambda: report(lambda: begin(config)))


def _stop_with_parent() -> None:
    """Stops this run, with a checkpoint, when its input is closed: on request, or as its parent is gone."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _wait_for_another(folder: Path) -> None:
    """Waits, at most a minute, while another process trains in a folder, such as one whose pool was just killed."""
    until = time.monotonic() + 60
    while is_training(folder) and time.monotonic() < until:
        time.sleep(0.1)


def train(
    runs: Iterable[PooledRun], jobs: int, ended: Callable[[PooledRun], None], waiting: Callable[[], None] = lambda: None
) -> bool:
    """Trains all runs.

    SIGINT, SIGTERM or SIGHUP stops them, each with a checkpoint, and so does an error of a callback; a second signal
    ends them at once.

    :param runs: the runs. Each is asked for when there is a place for it.
    :param jobs: how many train at a time.
    :param ended: is called with each run that has ended.
    :param waiting: is called again and again meanwhile.
    :return: whether a signal came.
    """
    active: list[PooledRun] = []
    with Interrupt(lambda: None) as interrupt:
        try:
            _wait(iter(runs), active, jobs, ended, waiting, interrupt)
        except KeyboardInterrupt:
            interrupt.happened = interrupt.aborted = True
            _wait(iter(()), active, 0, ended, waiting, interrupt)
        finally:  # such as when the reader of the output is gone
            for run in active:
                run.stop(1)
    return interrupt.happened


def _wait(
    queue: Iterator[PooledRun],
    active: list[PooledRun],
    jobs: int,
    ended: Callable[[PooledRun], None],
    waiting: Callable[[], None],
    interrupt: Interrupt,
) -> None:
    """Starts the runs of a queue, ``jobs`` at a time, and waits for them and for those that are active."""
    while True:
        while len(active) < jobs and not interrupt.happened and (run := next(queue, None)) is not None:
            active.append(run)
            run.start()
        if not active:
            return
        for run in active:
            run.stop(interrupt.happened + interrupt.aborted)
        for run in [run for run in active if run.process is None or run.status is not None]:
            active.remove(run)
            run.close()
            ended(run)
        waiting()
        time.sleep(0.05)


def show_messages(run: PooledRun) -> None:
    """Writes what an ended run has written to stderr, with its label.

    :param run: the run.
    """
    sys.stderr.writelines(f"{run.label}: {line}\n" for line in run.messages())
    sys.stderr.flush()


def tests(folder: Path) -> list[tuple[int, float]]:
    """Returns the step and the mean return of each test in the folder of a run.

    :param folder: the folder.
    """
    from rlfast.utils.logger import CSVLogger

    path = folder / "metrics.csv"
    rows = [row for row in CSVLogger(path).rows() if row["scope"] == "test"] if path.exists() else []
    return [(int(row["step"]), float(row["test/returns_stat/mean"])) for row in rows]


def last_test(folder: Path) -> tuple[int, float] | None:
    """Returns the step and the mean return of the last test in the folder of a run; None if there is none.

    :param folder: the folder.
    """
    return next(reversed(tests(folder)), None)


class Clock:
    """Estimates the time that a pool takes to its end.

    :param runs: the runs.
    :param jobs: how many train at a time.
    """

    def __init__(self, runs: Sequence[PooledRun], jobs: int) -> None:
        self._runs, self._jobs = runs, jobs
        self._paces: dict[str, float] = {}  # seconds of a step, by the label of a run

    def progress(self, run: PooledRun) -> tuple[float, float | None]:
        """Returns how much of a run is done, from 0 to 1, and how many seconds are left; None if that is not known.

        :param run: the run.
        """
        from rlfast.utils.logger import JSONLLogger

        rows = [row for row in JSONLLogger(run.folder / "metrics.jsonl").rows() if row.get("axis") == "env_step"]
        step, seconds = (rows[-1]["step"], rows[-1]["time"]) if rows else (0, 0.0)
        if step and seconds:
            self._paces[run.label] = seconds / step
        return step / run.config.max_steps, seconds_left(rows, run.config.max_steps)

    def seconds_left(self) -> float | None:
        """Returns how many seconds all runs take: those that train, at their paces; those that wait, at the mean pace
        of runs of the same algorithm, or else of all. None if no pace is known.
        """
        todo = [run for run in self._runs if run.status is None]
        left = [None if run.process is None else self.progress(run)[1] for run in todo]
        if not (todo and self._paces):
            return None
        seconds = [
            run.config.max_steps * self._pace(run) if known is None else known
            for run, known in zip(todo, left, strict=True)
        ]
        return max(*seconds, sum(seconds) / self._jobs)

    def _pace(self, run: PooledRun) -> float:
        like = {one.label for one in self._runs if type(one.config) is type(run.config)}
        known = [pace for label, pace in self._paces.items() if label in like] or [*self._paces.values()]
        return sum(known) / len(known)
