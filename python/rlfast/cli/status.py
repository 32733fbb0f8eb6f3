"""``rlfast status``, which shows the newest figures of a run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlfast.cli.main import complain
from rlfast.cli.parsing import Parser

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
    "test/returns_stat/mean": "mean return of the last test",
}
"""The figures that are shown, by their names in the log."""


def main(arguments: Sequence[str]) -> int:
    """Runs the command.

    :param arguments: arguments after ``status``.
    :return: the exit status.
    """
    parser = Parser("rlfast status", "Shows the newest figures in the log of a run, which may be running.")
    parser.add_argument("run_dir", type=Path, metavar="RUN", help="folder of the run")
    run_dir: Path = parser.parse_args(arguments).run_dir

    from rlfast.experiment.config import OfflineConfig
    from rlfast.experiment.run_dir import read_config
    from rlfast.utils.logger import JSONLLogger

    try:
        config = read_config(run_dir)
        newest = newest_figures(JSONLLogger(run_dir / "metrics.jsonl").rows())
    except (ValueError, OSError) as error:
        return complain(str(error), 2)
    if not newest:
        return complain(f"{run_dir} has no figures yet", 1)
    steps = newest.get("env_step", 0)
    if isinstance(config, OfflineConfig):  # whose logs count rows
        lines = {"gradient steps": f"{steps // config.batch_size:,.0f} of {config.max_steps:,}"}
    else:
        lines = {"environment steps": f"{steps:,.0f} of {config.max_steps:,}"}
        if "gradient_step" in newest:
            lines["gradient steps"] = f"{newest['gradient_step']:,.0f}"
    lines |= {title: f"{newest[name]:,.6g}" for name, title in _SHOWN.items() if name in newest}
    if (wanted := newest.get("ray/samples_per_insert_wanted")) is not None:
        lines[_SHOWN["ray/samples_per_insert"]] += f", wanted {wanted:,.6g}"
    sys.stdout.write("".join(f"{title:<36}{text}\n" for title, text in lines.items()))
    return 0


def newest_figures(rows: Iterable[dict[str, Any]]) -> dict[str, float]:
    """Returns the newest value of each figure, and the newest step of each axis.

    :param rows: the rows of a log, oldest first.
    """
    newest: dict[str, float] = {}
    for row in rows:
        newest |= {name: value for name, value in row.items() if "/" in name and isinstance(value, int | float)}
        if isinstance(row.get("step"), int | float):
            newest[str(row.get("axis"))] = row["step"]
    return newest
