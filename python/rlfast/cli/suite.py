"""``rlfast suite``, which trains several algorithms on the tasks of a suite with several seeds."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rlfast.cli.main import complain, sentence, unknown
from rlfast.cli.parsing import Parser, whole_number
from rlfast.cli.runs.suites import SUITES, Suite
from rlfast.experiment.config import flag

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlfast.cli.runs.pool import PooledRun

_USAGE = """rlfast suite NAME --algos ALGORITHM ... [--tasks TASK ...] [--seeds 0-4] [options]
       rlfast suite --resume DIR [--jobs N]"""
_LISTED = "suites:\n" + "\n".join(f"  {name:<12}{', '.join(tasks)}" for name, tasks in SUITES.items())
_REFRESHED: Final = 10.0
"""Seconds after which the line of a terminal is written anew."""


def main(arguments: Sequence[str]) -> int:
    """Runs the command.

    :param arguments: arguments after ``suite``.
    :return: the exit status.
    """
    given = vars(_parser().parse_args(arguments))
    jobs = given.pop("jobs", None)
    if jobs is not None and jobs < 1:
        return complain(f"--jobs must be at least 1, got {jobs}", 2)
    resumed = given.pop("resume", None)
    with ExitStack() as held:
        try:
            suite, folder = _begin(given, held) if resumed is None else _continue(resumed, given, held)
            runs = _runs(suite, folder)
        except (ValueError, TypeError, OSError) as error:
            return complain(sentence(error), 2)
        return _train(suite, folder, runs, jobs)


def _parser() -> Parser:
    what = "Trains algorithms with their presets on the tasks of a suite, each run in a process with one thread."
    how: Any = argparse.RawDescriptionHelpFormatter
    parser = Parser("rlfast suite", what, usage=_USAGE, epilog=_LISTED, formatter_class=how)
    add = partial(parser.add_argument, default=argparse.SUPPRESS)
    add("name", nargs="?", metavar="NAME", help="the suite")
    add("--algos", nargs="+", metavar="ALGORITHM", help="such as ppo sac td3")
    add("--tasks", nargs="+", metavar="TASK", help="some tasks of the suite [all]")
    add("--seeds", metavar="0-4", help="seeds of each algorithm on each task [0-4]")
    add("--max-steps", type=whole_number, metavar="INT", help="steps of a run [its preset's]")
    add("--device", metavar="NAME", help="device of the networks [cpu]")
    add("--jobs", type=whole_number, metavar="INT", help="runs at a time [as many as cores]")
    add("--out", type=Path, metavar="DIR", help="folder of the suite [runs/NAME]")
    add("--resume", type=Path, metavar="DIR", help="continue the suite in this folder")
    return parser


def _begin(given: dict[str, Any], held: ExitStack) -> tuple[Suite, Path]:
    """Returns a new suite and its folder, which is made and locked."""
    from rlfast.cli.runs.seeds import parse_seeds
    from rlfast.experiment.build import check_device
    from rlfast.experiment.run_dir import check_writable, only_process

    name = given.get("name")
    if name not in SUITES:
        raise ValueError(unknown("suite", name, SUITES))
    if "algos" not in given:
        raise ValueError("--algos is needed: the algorithms, such as --algos ppo sac")
    suite = Suite(
        name=name,
        algorithms=_words(given["algos"]),
        tasks=_words(given.get("tasks", SUITES[name])),
        seeds=tuple(parse_seeds(given.get("seeds", "0-4"))),
        max_steps=given.get("max_steps"),
        device=given.get("device", "cpu"),
    )
    check_device(suite.device)
    if (sentence := suite.missing_library()) is not None:
        raise ValueError(sentence)
    folder: Path = given.get("out", Path("runs", name))
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(_why_not_new(folder))
    for line in suite.left_out():
        sys.stderr.write(f"rlfast: {line}\n")
    if next(suite.configs(), None) is None:
        raise ValueError("no run is left: choose other --algos or --tasks")
    folder.mkdir(parents=True, exist_ok=True)
    check_writable(folder, "choose another --out")
    held.enter_context(only_process(folder))
    suite.write(folder)
    return suite, folder


def _words(texts: Sequence[str]) -> tuple[str, ...]:
    """Returns the words of arguments, which may be separated by commas, too."""
    return tuple(word for text in texts for word in text.split(",") if word)


def _why_not_new(folder: Path) -> str:
    try:
        there = Suite.read(folder)
    except (ValueError, OSError):
        return f"{folder} is not empty: choose another --out, or delete it"
    again = f"rlfast suite --resume {shlex.quote(str(folder))} continues it"
    return f"{folder} has a suite, {there.name} with {', '.join(there.algorithms)}: choose another --out; {again}"


def _continue(folder: Path, given: dict[str, Any], held: ExitStack) -> tuple[Suite, Path]:
    """Returns the suite of a folder, which is locked, and the folder."""
    from rlfast.experiment.run_dir import check_writable, only_process

    if given:
        extra = ", ".join("NAME" if name == "name" else flag(name) for name in given)
        raise ValueError(f"a suite continues as it was started, with --resume DIR and --jobs alone: leave out {extra}")
    suite = Suite.read(folder)
    if (sentence := suite.missing_library()) is not None:
        raise ValueError(sentence)
    check_writable(folder, "copy the suite to a folder of yours, and resume it there")
    held.enter_context(only_process(folder))
    return suite, folder


def _runs(suite: Suite, folder: Path) -> list[PooledRun]:
    """Returns the runs of a suite that have not ended.

    :raises ValueError: if the folder of one has another run.
    """
    from rlfast.cli.runs.pool import PooledRun
    from rlfast.experiment.algorithms import algorithm_of
    from rlfast.experiment.run_dir import has_ended, read_config, run_name

    runs = []
    for config in suite.configs():
        algorithm = algorithm_of(config).name
        own = folder / run_name(config, algorithm)
        begun = (own / "config.json").exists()
        if begun:
            there = read_config(own)
            if (type(there), there.env, there.seed) != (type(config), config.env, config.seed):
                raise ValueError(f"{own} has another run, of {algorithm_of(there).name} on {there.env}: move it away")
            if has_ended(own, there):
                continue
            config = there  # noqa: PLW2901 (as it was begun)
        label = f"{algorithm} {config.env} seed {config.seed}"
        runs.append(PooledRun(label=label, config=replace(config, run_dir=own), folder=own, resumed=begun))
    return runs


def _train(suite: Suite, folder: Path, runs: Sequence[PooledRun], jobs: int | None) -> int:
    from rlfast.cli.runs.pool import train
    from rlfast.utils.runtime.cores import cores

    jobs = cores() if jobs is None else jobs
    number = sum(1 for _ in suite.configs())
    ended = f", of which {number - len(runs)} have ended" if len(runs) < number else ""
    sys.stdout.write(f"suite {suite.name}: {number} runs{ended}, {jobs} at a time, in {folder}\n")
    sys.stdout.flush()
    progress = _Progress(runs, jobs)
    interrupted = train(runs, jobs, progress.ended, progress.refresh)
    quoted = shlex.quote(str(folder))
    failed = [run for run in runs if run.status != 0]
    if interrupted and failed:
        return complain(f"interrupted: rlfast suite --resume {quoted} continues it", 130)
    if failed:
        names = ", ".join(run.label for run in failed)
        again = f"rlfast suite --resume {quoted} tries again"
        return complain(f"{len(failed)} of {number} runs failed ({names}); {again}", 1)
    sys.stdout.write(f"all {number} runs have ended: rlfast report {quoted} makes tables and pictures of them\n")
    return 0


class _Progress:
    """Writes a line when a run ends, and on a terminal another one about those that train."""

    def __init__(self, runs: Sequence[PooledRun], jobs: int) -> None:
        from rlfast.cli.runs.pool import Clock

        self._runs, self._clock = runs, Clock(runs, jobs)
        self._done, self._refreshed = 0, time.monotonic()

    def ended(self, run: PooledRun) -> None:
        """Writes what a run has written to stderr, what became of it, and how long the others take."""
        from rlfast.cli.runs.pool import show_messages

        self._clock.progress(run)
        self._write("")
        interrupted = run.status == 130
        if interrupted:
            run.messages()  # which name the command that resumes this run alone
        else:
            show_messages(run)
        self._done += 1
        left = "" if interrupted else self._left()
        sys.stderr.write(f"[{self._done}/{len(self._runs)}] {run.label}: {run.outcome()}{left}\n")
        sys.stderr.flush()

    def refresh(self) -> None:
        """Writes how far the runs that train are, on a terminal."""
        now = time.monotonic()
        if now < self._refreshed + _REFRESHED or not sys.stderr.isatty():
            return
        self._refreshed = now
        training = [run for run in self._runs if run.process is not None and run.status is None]
        parts = [f"{run.label} {self._clock.progress(run)[0]:.0%}" for run in training]
        self._write(", ".join(parts) + self._left())

    def _left(self) -> str:
        from rlfast.utils.progress_bar import duration

        seconds = self._clock.seconds_left()
        return "" if seconds is None else f"; about {duration(seconds)} left"

    def _write(self, text: str) -> None:
        """Replaces the last line of a terminal."""
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
