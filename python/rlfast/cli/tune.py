"""``rlfast tune``, which searches settings of an algorithm for an environment."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rlfast.cli.main import complain, sentence, unknown
from rlfast.cli.parsing import Parser, read_settings, shown, whole_number
from rlfast.experiment.config import flag
from rlfast.experiment.config.search import Between, possible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlfast.cli.runs.pool import PooledRun
    from rlfast.cli.runs.study import Study, Trials
    from rlfast.experiment.algorithms import Algorithm
    from rlfast.experiment.config import RunConfig
    from rlfast.experiment.config.search import Search

_USAGE = """rlfast tune ALGORITHM [--env ID] [--trials N] [--jobs N] [--out DIR] [any setting]
       rlfast tune --resume DIR [--trials N] [--jobs N]"""
_WHAT = """Trains an algorithm again and again with settings that Optuna chooses, each time in a process
with one thread, and stops trials early that are worse than others were at the same step. The score of a
trial is the mean return of its last three tests."""
_BEST: Final = "best.json"
_WATCHED: Final = 1.0
"""Seconds between looks at the tests of trials."""


def main(arguments: Sequence[str]) -> int:
    """Runs the command.

    :param arguments: arguments after ``tune``.
    :return: the exit status.
    """
    from rlfast.experiment.algorithms import ALGORITHMS

    name = arguments[0] if arguments else ""
    algorithm = ALGORITHMS.get(name)
    if algorithm is None and not name.startswith("-"):
        missing = unknown("algorithm", name or None, ALGORITHMS, listed=False)
        return complain(f"{missing} (rlfast train --help lists all)", 2)
    own, others = _parser(algorithm).parse_known_args(arguments[algorithm is not None :])
    given = vars(own)
    jobs = given.pop("jobs", None)
    if jobs is not None and jobs < 1:
        return complain(f"--jobs must be at least 1, got {jobs}", 2)
    with ExitStack() as held:
        try:
            if algorithm is not None:
                study, folder = _begin(algorithm, given, others, held)
            else:
                study, folder = _continue(given, others, held)
        except (ValueError, TypeError, OSError) as error:
            return complain(sentence(error), 2)
        return _search(study, folder, jobs)


def _parser(algorithm: Algorithm | None = None) -> Parser:
    """Returns the parser of what are no settings, whose help lists the ranges of an algorithm."""
    listed = "" if algorithm is None else f"searched, but for settings that are given:\n{_listed(algorithm.search)}\n"
    named = "ALGORITHM" if algorithm is None else algorithm.name
    epilog = f"{listed}settings: see rlfast train {named} --help"
    how: Any = argparse.RawDescriptionHelpFormatter
    parser = Parser("rlfast tune", _WHAT, usage=_USAGE, epilog=epilog, formatter_class=how)
    left_out: dict[str, Any] = {"default": argparse.SUPPRESS}
    parser.add_argument("--trials", type=whole_number, metavar="INT", help="number of trials [50]", **left_out)
    parser.add_argument(
        "--jobs", type=whole_number, metavar="INT", help="trials at a time [as many as cores]", **left_out
    )
    parser.add_argument("--search", nargs="+", metavar="SETTING", help="search these alone [all below]", **left_out)
    parser.add_argument(
        "--pruner", choices=("median", "hyperband", "none"), help="which trials are stopped early [median]", **left_out
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder of the study [runs/tune-ALGO-ENV]", **left_out)
    parser.add_argument("--resume", type=Path, metavar="DIR", help="continue the study in this folder", **left_out)
    return parser


def _listed(search: Search) -> str:
    """Returns a line for each range."""
    lines = []
    for name, one in search.items():
        if isinstance(one, Between):
            text = f"{one.low:g} to {one.high:g}{', logarithmic' * one.log}"
        else:
            text = ", ".join(map(shown, one.values))
        lines.append(f"  {flag(name):<30}{text}")
    return "\n".join(lines)


def _begin(algorithm: Algorithm, given: dict[str, Any], others: Sequence[str], held: ExitStack) -> tuple[Study, Path]:
    """Returns a new study and its folder, which is made and locked."""
    from rlfast.cli.runs.study import Study
    from rlfast.cli.train import config_of
    from rlfast.experiment.run_dir import check_writable, only_process, run_name

    if "resume" in given:
        raise ValueError("a study continues as it was started: rlfast tune --resume DIR, without an algorithm")
    settings = read_settings(f"rlfast tune {algorithm.name}", algorithm.config, others, algorithm.preset)
    for name in ("seeds", "run_dir"):
        if name in settings:
            raise ValueError(f"{flag(name)} is for rlfast train: leave it out (--seed is that of the first trial)")
    config = config_of(algorithm, {"stop_return": None, "threads": 1, "progress": False} | settings)
    search = possible(algorithm.search, config)
    names = [one.removeprefix("--").replace("-", "_") for one in given.get("search", search)]
    for name in names:
        if name not in search:
            raise ValueError(unknown("range of a setting", name, search))
    folder: Path = given.get("out", Path("runs", "tune-" + run_name(config, algorithm.name).rpartition("-seed")[0]))
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} is not empty: choose another --out, or continue with --resume")
    search = {name: search[name] for name in _with_effect(config, names) if name not in settings}
    if not search:
        raise ValueError("nothing is left to search: give fewer settings, or others in --search")
    more = {name: given[name] for name in ("trials", "pruner") if name in given}
    study = Study(algorithm=algorithm.name, config=config, search=search, **more)
    folder.mkdir(parents=True, exist_ok=True)
    check_writable(folder, "choose another --out")
    held.enter_context(only_process(folder))
    study.write(folder)
    return study, folder


def _with_effect(config: RunConfig, names: Sequence[str]) -> list[str]:
    """Returns the names of settings that change something in a run.

    :raises ValueError: if there can be no run with the settings.
    """
    import gymnasium as gym

    from rlfast.experiment.build import build
    from rlfast.experiment.report.unused import unread_settings
    from rlfast.experiment.run import check_settings

    check_settings(config)
    try:
        parts = build(config)
    except (gym.error.Error, ImportError) as error:
        raise ValueError(str(error)) from error
    try:
        unread = {name for some, _ in unread_settings(config, parts.policy) for name in some}
    finally:
        parts.close()
    return [name for name in names if name not in unread]


def _continue(given: dict[str, Any], others: Sequence[str], held: ExitStack) -> tuple[Study, Path]:
    """Returns the study of a folder, which is locked, and the folder."""
    from rlfast.cli.runs.study import Study
    from rlfast.experiment.run_dir import check_writable, only_process

    folder: Path | None = given.pop("resume", None)
    if folder is None:
        raise ValueError(
            f"an algorithm is needed, before {others[0] if others else 'the options'}: rlfast tune ppo ..."
        )
    trials = given.pop("trials", None)
    if extra := [*map(flag, given), *others]:
        raise ValueError(f"a study continues as it was started, with --trials and --jobs alone: leave out {extra[0]}")
    study = Study.read(folder)
    check_writable(folder, "copy the study to a folder of yours, and resume it there")
    held.enter_context(only_process(folder))
    if trials is not None:
        study = replace(study, trials=trials)
        study.write(folder)
    return study, folder


def _search(study: Study, folder: Path, jobs: int | None) -> int:
    from rlfast.cli.runs.pool import train
    from rlfast.cli.runs.study import Trials
    from rlfast.utils.runtime.cores import cores

    trials = Trials(study, folder)
    jobs = cores() if jobs is None else jobs
    done = trials.ended_runs()
    ended = f", of which {done} have ended" if done else ""
    sys.stdout.write(
        f"{study.algorithm} on {study.config.env}: {study.trials} trials{ended}, {jobs} at a time, in {folder}\n"
    )
    sys.stdout.flush()
    lines = _Lines(trials)
    interrupted = train(trials.runs(), jobs, lines.ended, lines.watch)
    _summarize(trials)
    quoted = shlex.quote(str(folder))
    if interrupted and trials.ended_runs() < study.trials:
        return complain(f"interrupted: rlfast tune --resume {quoted} continues it", 130)
    return 0 if trials.best is not None else complain(f"no trial has succeeded: see {quoted}", 1)


class _Lines:
    """Writes a line when a trial ends, and the file of the best settings when it is the best."""

    def __init__(self, trials: Trials) -> None:
        self._trials, self._watched = trials, 0.0

    def watch(self) -> None:
        """Looks at the tests, now and then."""
        if time.monotonic() >= self._watched + _WATCHED:
            self._watched = time.monotonic()
            self._trials.watch()

    def ended(self, run: PooledRun) -> None:
        """Writes what became of a trial."""
        from rlfast.cli.runs.pool import show_messages

        trial = self._trials.ended(run)
        if run.status in (0, 130) or trial.pruned:
            run.messages()  # which name the command that resumes this run alone
        else:
            show_messages(run)
        done, number = self._trials.ended_runs(), self._trials.study.trials
        sys.stderr.write(f"[{done}/{number}] {run.label}: {trial.outcome()}; {_options(trial.values)}\n")
        sys.stderr.flush()
        self._trials.write_best(self._trials.folder / _BEST)


def _summarize(trials: Trials) -> None:
    """Draws the study, and writes its best settings."""
    from rlfast.experiment.report.study import draw_study

    best = trials.best
    if best is None:
        return
    picture = trials.folder / "study.png"
    draw_study(trials.scores(), trials.importances(), picture)
    score, run, values = best
    again = f"rlfast train {trials.study.algorithm} --config {shlex.quote(str(trials.folder / _BEST))}"
    sys.stdout.write(f"best: {score:,.1f}, trial {run}; {_options(values)}\n{again} trains with these settings\n")
    sys.stdout.write(f"{picture} shows all trials\n")


def _options(values: dict[str, Any]) -> str:
    """Returns settings as options of the command line, with four digits of numbers."""
    rounded = {name: f"{value:.4g}" if isinstance(value, float) else shown(value) for name, value in values.items()}
    return " ".join(f"{flag(name)} {text}" for name, text in rounded.items())
