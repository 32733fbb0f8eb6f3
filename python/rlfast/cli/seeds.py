"""``rlfast train ALGORITHM --seeds``, which trains several seeds at once, each in a process of its own."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

from rlfast.cli.main import complain, guarded, sentence
from rlfast.cli.reporting import report
from rlfast.experiment.algorithms import algorithm_of, find
from rlfast.utils.runtime.interrupt import Interrupt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlfast.experiment.config import RunConfig

_MOST = 10_000
_CHILD = "import sys; from rlfast.cli.seeds import child; sys.exit(child(*sys.argv[1:]))"


def parse_seeds(text: str) -> list[int]:
    """Returns the seeds that a list of numbers and ranges names.

    :param text: such as ``"0-4"`` or ``"0,2,5-7"``; both ends of a range are in it.
    :raises ValueError: if it is no such list, names a seed twice, or more than 10,000.

    >>> parse_seeds("0,2,5-7")
    [0, 2, 5, 6, 7]
    """
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = (one.strip() for one in part.partition("-"))
        if not (first.isdecimal() and (last.isdecimal() if dash else not last)):
            raise ValueError(f"--seeds takes numbers and ranges such as 0,2,5-7, got {text!r}")
        span = range(int(first), int(last if dash else first) + 1)
        if not span:
            raise ValueError(f"--seeds: the range {part.strip()} ends before it begins")
        if len(seeds) + span[-1] - span[0] + 1 > _MOST:
            raise ValueError(f"--seeds names more than {_MOST:,} seeds")
        seeds += span
    if len({*seeds}) < len(seeds):
        raise ValueError(f"--seeds {text} names a seed twice")
    return seeds


@dataclass(kw_only=True)
class _Run:
    """The run of one seed."""

    config: RunConfig
    folder: Path
    shown: IO[str]
    """What the process writes to stderr."""
    process: subprocess.Popen[bytes] | None = None
    stop_requests: int = 0
    """The number of requests to stop that were sent to the process."""

    @property
    def status(self) -> int | None:
        """The exit status; None before the end, and for a run that never began."""
        return None if self.process is None else self.process.poll()

    def start(self) -> None:
        """Starts the process, which finds modules where this one does, and gets no signals of this one's terminal."""
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        command = [sys.executable, "-P", "-c", _CHILD, algorithm_of(self.config).name, self.config.to_json()]
        self.process = subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self.shown,
            env=environment,
            start_new_session=True,
        )

    def stop(self, times: int) -> None:
        """Sends requests to stop to a running process until it has got this number of them."""
        while self.process is not None and self.process.poll() is None and self.stop_requests < times:
            self.stop_requests += 1
            self.process.terminate()

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
        test = _last_test(self.folder)
        return ended + ("no test" if test is None else f"{test[1]:.1f} at step {test[0]:,}")


def child(algorithm: str, settings: str) -> int:
    """Trains one seed, in a process that :func:`main` has started.

    :param algorithm: the name of the algorithm.
    :param settings: the settings as JSON.
    :return: the exit status.
    """
    from rlfast.distributed.run import train

    config = find(algorithm).config.from_json(settings)
    return guarded("rlfast train", lambda: report(lambda: train(config)))


def main(config: RunConfig, seeds: Sequence[int], jobs: int | None) -> int:
    """Trains every seed, and writes a line when one has ended, and a summary of all.

    :param config: the settings, without the seed; ``run_dir`` is the beginning of the names of the folders.
    :param seeds: the seeds.
    :param jobs: the number of processes at once; None for as many as there are cores.
    :return: the exit status: 0 if all runs have succeeded, 2 if none could begin, 130 if they were interrupted, and
        else 1.
    """
    from rlfast.utils.runtime.cores import cores

    jobs = max(1, cores() // config.threads) if jobs is None else jobs
    with ExitStack() as held:
        try:
            runs = _make(config, seeds, held)
        except OSError as error:
            return complain(sentence(error), 2)
        interrupted = _train(runs, jobs)
        for run in runs:
            if not any(run.folder.iterdir()):
                run.folder.rmdir()
        _summarize(runs)
    return _status(runs, interrupted=interrupted)


def _make(config: RunConfig, seeds: Sequence[int], held: ExitStack) -> list[_Run]:
    """Makes the folders of all runs, and temporary files, which ``held`` closes.

    :raises OSError: if a folder is in use; then none was made.
    """
    from rlfast.experiment.run_dir import make_run_dir

    runs: list[_Run] = []
    try:
        for seed in seeds:
            own = None if config.run_dir is None else Path(f"{config.run_dir}-seed{seed}")
            one = replace(config, seed=seed, run_dir=own, progress=False)
            folder = make_run_dir(one, algorithm_of(config).name)
            shown = held.enter_context(tempfile.TemporaryFile("w+"))  # noqa: SIM115 (it is entered)
            runs.append(_Run(config=replace(one, run_dir=folder), folder=folder, shown=shown))
    except OSError:
        for run in runs:
            run.folder.rmdir()
        raise
    return runs


def _train(runs: Sequence[_Run], jobs: int) -> bool:
    """Runs the processes, and returns whether a signal has stopped them. A second signal ends them at once."""
    with Interrupt(lambda: None) as interrupt:
        try:
            _wait(runs, jobs, interrupt)
        except KeyboardInterrupt:
            interrupt.happened = interrupt.aborted = True
            _wait(runs, 0, interrupt)
    return interrupt.happened


def _wait(runs: Sequence[_Run], jobs: int, interrupt: Interrupt) -> None:
    """Starts the runs that have not begun, ``jobs`` at a time, and waits for all."""
    waiting = [run for run in runs if run.process is None]
    active = [run for run in runs if run.process is not None and run.status is None]
    while active or (waiting and not interrupt.happened):
        while waiting and len(active) < jobs and not interrupt.happened:
            active.append(waiting.pop(0))
            active[-1].start()
        for run in active:
            run.stop(interrupt.happened + interrupt.aborted)
        for run in [run for run in active if run.status is not None]:
            active.remove(run)
            _tell(run)
        time.sleep(0.05)


def _tell(run: _Run) -> None:
    """Writes what a run has written to stderr, and what became of it."""
    seed = run.config.seed
    run.shown.seek(0)
    sys.stderr.writelines(f"seed {seed}: {line.removeprefix('rlfast: ')}" for line in run.shown if line.strip())
    sys.stderr.write(f"seed {seed}: {run.outcome()}\n")
    sys.stderr.flush()


def _last_test(folder: Path) -> tuple[int, float] | None:
    """Returns the step and the mean return of the last test in a folder; None if there is none."""
    from rlfast.utils.logger import CSVLogger

    path = folder / "metrics.csv"
    rows = [row for row in CSVLogger(path).rows() if row["scope"] == "test"] if path.exists() else []
    return (int(rows[-1]["step"]), float(rows[-1]["test/returns_stat/mean"])) if rows else None


def _summarize(runs: Sequence[_Run]) -> None:
    import numpy as np

    config = runs[0].config
    lines = [f"{algorithm_of(config).title} on {config.env}, {len(runs)} seeds"]
    lines += [f"  seed {run.config.seed:<6}{run.outcome():<34}{run.folder}" for run in runs]
    returns = [test[1] for run in runs if (test := _last_test(run.folder)) is not None]
    if returns:
        lines.append(f"  all        {np.mean(returns):.1f}, from {min(returns):.1f} to {max(returns):.1f}")
        folders = shlex.join(str(run.folder) for run in runs if _last_test(run.folder) is not None)
        lines.append(f"rlfast plot {folders} draws them")
    sys.stdout.write("\n".join(lines) + "\n")


def _status(runs: Sequence[_Run], *, interrupted: bool) -> int:
    """Returns the exit status of all runs."""
    statuses = {run.status for run in runs}
    if interrupted and statuses - {0}:
        going = [run.folder for run in runs if run.status != 0 and run.folder.exists()]
        return complain("interrupted: rlfast train --resume RUN_DIR goes on with " + " ".join(map(str, going)), 130)
    if statuses == {2}:
        return 2
    failed = [str(run.config.seed) for run in runs if run.status != 0]
    return complain(f"seeds {', '.join(failed)} failed", 1) if failed else 0
