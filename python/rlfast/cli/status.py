"""``rlfast status``, which shows how far a run is."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlfast.cli.main import complain, sentence
from rlfast.cli.parsing import Parser

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rlfast.experiment.config import RunConfig

RUNNING = "running"
_TEST = "test/returns_stat/mean"
_SHOWN = {
    "ray/steps_per_second": "environment steps per second",
    "ray/samples_per_insert": "samples per insert",
    "ray/staleness_mean": "age of weights, in gradient steps",
    "ray/staleness_max": "  at most",
    "ray/rows": "rows in the shards",
    "ray/orders_in_flight": "orders of collectors in flight",
    "ray/steps_in_flight": "  their environment steps",
    "ray/steps_waiting": "steps that wait for the learner",
    "ray/collectors_lost": "collectors lost and replaced",
    "ray/shards_lost": "shards lost and replaced",
    "ray/learners_lost": "learners lost and replaced",
    "train/returns_stat/mean": "mean return of training",
    _TEST: "mean return of the last test",
}
"""The figures that are shown, by their names in the log."""


def main(arguments: Sequence[str]) -> int:
    """Runs the command.

    :param arguments: arguments after ``status``.
    :return: the exit status.
    """
    parser = Parser("rlfast status", "Shows whether a run is running, how far it is, and its newest figures.")
    parser.add_argument("run_dir", type=Path, metavar="RUN", help="folder of the run")
    run_dir: Path = parser.parse_args(arguments).run_dir

    from rlfast.experiment.run_dir import has_policy_alone, read_config
    from rlfast.utils.logger import JSONLLogger

    try:
        config = read_config(run_dir)
        rows = JSONLLogger(run_dir / "metrics.jsonl").rows()
        lines = _lines(run_dir, config, rows)
    except (ValueError, OSError) as error:
        return complain(sentence(error), 2)
    sys.stdout.write("".join(f"{title:<36}{text}\n" for title, text in lines.items()))
    return 0 if rows or has_policy_alone(run_dir) else complain(f"{run_dir} has no figures yet", 1)


def _lines(run_dir: Path, config: RunConfig, rows: Sequence[dict[str, Any]]) -> dict[str, str]:
    from rlfast.utils.progress_bar import duration

    newest = newest_figures(rows)
    steps, total = newest.get("env_step", 0.0), config.steps
    offline = not config.collects
    if offline:  # whose logs count rows
        steps //= config.batch_size
    state = state_of(run_dir, config)
    lines = {"state": state}
    if state == RUNNING and (seconds := seconds_left(rows, total * (config.batch_size if offline else 1))) is not None:
        lines["time left"] = f"{duration(seconds)}{' at most' * (config.stop_return is not None)}"
    if rows:
        lines["gradient steps" if offline else "environment steps"] = f"{steps:,.0f} of {total:,} ({steps / total:.0%})"
    if "gradient_step" in newest and not offline:
        lines["gradient steps"] = f"{newest['gradient_step']:,.0f}"
    lines |= {title: f"{newest[name]:,.6g}" for name, title in _SHOWN.items() if name in newest}
    if (wanted := newest.get("ray/samples_per_insert_wanted")) is not None:
        lines[_SHOWN["ray/samples_per_insert"]] += f", wanted {wanted:,.6g}"
    tests = [row[_TEST] for row in rows if isinstance(row.get(_TEST), int | float)]
    if tests:
        lines["mean return of the best test"] = f"{max(tests):,.6g}"
    return lines


def state_of(run_dir: Path, config: RunConfig) -> str:
    """Returns whether a run is running, or how it ended.

    A process of another machine is not seen.

    :param run_dir: the folder of the run.
    :param config: its settings.
    """
    from rlfast.experiment.run_dir import ERROR_LOG, has_ended, has_policy_alone, is_training

    if is_training(run_dir):
        return RUNNING
    if has_policy_alone(run_dir):
        return "a policy alone, as of a shared or imported run: it acts, and does not learn"
    error = run_dir / ERROR_LOG
    if error.exists():
        last = (error.read_text(errors="replace").strip().splitlines() or [""])[-1]
        return f"failed: {''.join(one if one.isprintable() else '?' for one in last)} (traceback in {error})"
    again = f"rlfast train --resume {shlex.quote(str(run_dir))} continues it"
    return "ended" if has_ended(run_dir, config) else f"interrupted: {again}"


def seconds_left(rows: Sequence[dict[str, Any]], max_steps: int) -> float | None:
    """Returns how many seconds a run takes to its last step, at its pace of the newest tenth of its log.

    :param rows: the rows of its log, oldest first.
    :param max_steps: the last step.
    :return: the seconds; None if that cannot be known yet.
    """
    points = [(row["step"], row["time"]) for row in rows if row.get("axis") == "env_step" and _are_numbers(row)]
    first, last = (points[-min(len(points), max(2, len(points) // 10))], points[-1]) if points else ((0, 0), (0, 0))
    if last[0] <= first[0] or last[1] <= first[1]:
        return None
    return float(max(max_steps - last[0], 0) * (last[1] - first[1]) / (last[0] - first[0]))


def _are_numbers(row: dict[str, Any]) -> bool:
    return all(isinstance(row.get(name), int | float) for name in ("step", "time"))


def newest_figures(rows: Iterable[dict[str, Any]]) -> dict[str, float]:
    """Returns the newest value of each figure, and the newest step of each axis; of gradient steps the largest number.

    Not every update is logged, and rows of checkpoints and epochs have newer numbers of gradient steps.

    :param rows: the rows of a log, oldest first.
    """
    newest: dict[str, float] = {}
    for row in rows:
        newest |= {name: value for name, value in row.items() if "/" in name and isinstance(value, int | float)}
        if isinstance(row.get("step"), int | float):
            newest[str(row.get("axis"))] = row["step"]
    counts = [newest[name] for name in ("gradient_step", "save/gradient_step", "info/gradient_step") if name in newest]
    return newest | ({"gradient_step": max(counts)} if counts else {})
