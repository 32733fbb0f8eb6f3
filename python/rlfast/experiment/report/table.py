"""Reports of runs: a table in Markdown, and pictures."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from rlfast.evaluation.intervals import intervals
from rlfast.experiment.report.curves import command_of, grouped, labels_of
from rlfast.experiment.report.plot import draw_panels, draw_profiles
from rlfast.utils.progress_bar import duration
from rlfast.utils.runtime.files import replace_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from rlfast.experiment.report.curves import Configuration, RunCurve

_HEADS = (
    *("task", "algorithm", "last tests, mean", "best tests, mean", "last tests, IQM (95 % interval)", "seeds"),
    *("steps", "wall clock, mean", "processor", "versions"),
)
_SHOWN = ("mujoco", "ale_py", "Box2D", "gymnasium", "torch", "rlfast")
"""The libraries whose versions are shown, by the names of their imports."""


def write_report(runs: Iterable[RunCurve], folder: Path) -> str:
    """Writes ``report.md`` with a table of runs, a picture of each task's learning curves, and performance profiles.

    :param runs: the runs.
    :param folder: the folder, which is made.
    :return: the table.
    :raises OSError: if a file cannot be written.
    :raises ValueError: if two runs have the same configuration and seed.
    """
    groups = in_order(grouped(runs))
    labels = labels_of([*groups])
    folder.mkdir(parents=True, exist_ok=True)
    table = markdown_table(groups, labels)
    parts = ["# Report", table, "Each row is over seeds; an interval is that of a bootstrap.", "## Learning curves"]
    for env in dict.fromkeys(key.env for key in groups):
        own = {key: group for key, group in groups.items() if key.env == env}
        picture = f"learning-{re.sub('[^A-Za-z0-9.]', '-', env)}.png"
        draw_panels(own, labels, folder / picture)
        parts.append(f"![Interquartile mean of tests on {env} over environment steps]({picture})")
    if tasks := draw_profiles(groups, labels, folder / "profiles.png"):
        meaning = (
            "The fraction of runs whose last test is above a normalized return: 0 is the mean of all first tests of a "
            f"task, 1 that of the last tests of its best algorithm. Tasks: {', '.join(tasks)}."
        )
        parts += ["## Performance profiles", meaning, "![Performance profiles](profiles.png)"]
    else:
        parts.append("There are no performance profiles: no task that all algorithms have was learned.")
    commands = [f"- `{command_of(group[0].config)}`" for group in groups.values()]
    parts += ["## Commands", "The first seed of each row:", "\n".join(commands)]
    replace_file(folder / "report.md", ("\n\n".join(parts) + "\n").encode())
    return table


def in_order(groups: Mapping[Configuration, Sequence[RunCurve]]) -> dict[Configuration, list[RunCurve]]:
    """Returns groups by task and algorithm, and the runs of each by seed.

    :param groups: the runs of each configuration.
    """
    keys = sorted(groups, key=lambda key: (key.env, key.algorithm, key.values["max_steps"], key.settings))
    return {key: sorted(groups[key], key=lambda run: run.config.seed) for key in keys}


def markdown_table(groups: Mapping[Configuration, Sequence[RunCurve]], labels: Mapping[Configuration, str]) -> str:
    """Returns a table in Markdown with a row for each configuration.

    :param groups: the runs of each configuration.
    :param labels: the label of each configuration.
    """
    rows = [_HEADS, ("---",) * len(_HEADS), *(_row(key, labels[key], group) for key, group in groups.items())]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows)


def last_and_best(group: Sequence[RunCurve]) -> tuple[float, float]:
    """Returns the mean of the last tests of runs, and that of their best tests.

    :param group: the runs.
    """
    return float(np.mean([run.mean[-1] for run in group])), float(np.mean([max(run.mean) for run in group]))


def _row(key: Configuration, label: str, group: Sequence[RunCurve]) -> tuple[str, ...]:
    last, best = last_and_best(group)
    iqm = intervals([run.mean[-1] for run in group])["iqm"]
    steps = sorted({run.steps[-1] for run in group})
    return (
        key.env,
        label,
        f"{last:,.1f}",
        f"{best:,.1f}",
        f"{iqm.value:,.1f} ({iqm.low:,.1f} to {iqm.high:,.1f})",
        _seeds(group),
        f"{steps[0]:,}" if len(steps) == 1 else f"{steps[0]:,} to {steps[-1]:,}",
        duration(float(np.mean([run.seconds for run in group]))),
        _all(run.processor for run in group),
        _all(_versions(run) for run in group),
    )


def _seeds(group: Sequence[RunCurve]) -> str:
    unfinished = spans([run.config.seed for run in group if not run.ended])
    return spans([run.config.seed for run in group]) + (f"; unfinished: {unfinished}" if unfinished else "")


def spans(numbers: Sequence[int]) -> str:
    """Returns numbers as ``--seeds`` takes them.

    :param numbers: the numbers.

    >>> spans([0, 1, 2, 7, 9, 10])
    '0-2, 7, 9-10'
    """
    ordered = sorted(numbers)
    starts = [one for one in ordered if one - 1 not in ordered]
    ends = [one for one in ordered if one + 1 not in ordered]
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in zip(starts, ends, strict=True))


def _versions(run: RunCurve) -> str:
    return ", ".join(f"{name} {run.versions[name]}" for name in _SHOWN if name in run.versions)


def _all(texts: Iterable[str]) -> str:
    """Returns different texts one after the other, each once."""
    return "; ".join(dict.fromkeys(text or "unknown" for text in texts))
