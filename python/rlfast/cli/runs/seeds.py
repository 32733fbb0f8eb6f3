"""``rlfast train ALGORITHM --seeds``, which trains several seeds at once, each in a process of its own."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rlfast.cli.main import complain, sentence
from rlfast.cli.runs.pool import PooledRun, last_test, show_messages, train
from rlfast.experiment.algorithms import algorithm_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlfast.experiment.config import RunConfig

_MOST = 10_000


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
    try:
        runs = _make(config, seeds)
    except OSError as error:
        return complain(sentence(error), 2)
    interrupted = train(runs, jobs, _tell)
    for run in runs:
        if not any(run.folder.iterdir()):
            run.folder.rmdir()
    _summarize(runs)
    return _status(runs, interrupted=interrupted)


def _make(config: RunConfig, seeds: Sequence[int]) -> list[PooledRun]:
    """Makes the folders of all runs.

    :raises OSError: if a folder is in use; then none was made.
    """
    from rlfast.experiment.run_dir import make_run_dir

    runs: list[PooledRun] = []
    try:
        for seed in seeds:
            own = None if config.run_dir is None else Path(f"{config.run_dir}-seed{seed}")
            one = replace(config, seed=seed, run_dir=own, progress=False)
            folder = make_run_dir(one, algorithm_of(config).name)
            runs.append(PooledRun(label=f"seed {seed}", config=replace(one, run_dir=folder), folder=folder))
    except OSError:
        for run in runs:
            run.folder.rmdir()
        raise
    return runs


def _tell(run: PooledRun) -> None:
    """Writes what a run has written to stderr, and what became of it."""
    show_messages(run)
    sys.stderr.write(f"{run.label}: {run.outcome()}\n")
    sys.stderr.flush()


def _summarize(runs: Sequence[PooledRun]) -> None:
    import numpy as np

    config = runs[0].config
    lines = [f"{algorithm_of(config).title} on {config.env}, {len(runs)} seeds"]
    lines += [f"  seed {run.config.seed:<6}{run.outcome():<34}{run.folder}" for run in runs]
    returns = [test[1] for run in runs if (test := last_test(run.folder)) is not None]
    if returns:
        lines.append(f"  all        {np.mean(returns):.1f}, from {min(returns):.1f} to {max(returns):.1f}")
        folders = shlex.join(str(run.folder) for run in runs if last_test(run.folder) is not None)
        lines.append(f"rlfast plot {folders} draws them")
    sys.stdout.write("\n".join(lines) + "\n")


def _status(runs: Sequence[PooledRun], *, interrupted: bool) -> int:
    """Returns the exit status of all runs."""
    statuses = {run.status for run in runs}
    if interrupted and statuses - {0}:
        going = [run.folder for run in runs if run.status != 0 and run.folder.exists()]
        return complain("interrupted: rlfast train --resume RUN_DIR goes on with " + " ".join(map(str, going)), 130)
    if statuses == {2}:
        return 2
    failed = [str(run.config.seed) for run in runs if run.status != 0]
    return complain(f"seeds {', '.join(failed)} failed", 1) if failed else 0
