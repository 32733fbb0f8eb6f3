"""Pictures of learning curves from the metrics of runs."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rlfast.evaluation.curves import read_curves
from rlfast.evaluation.intervals import Curve, aggregate, performance_profile
from rlfast.experiment.report.curves import grouped, labels_of, read_run
from rlfast.utils.runtime.files import replace_file

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

    from rlfast.experiment.report.curves import Configuration, RunCurve


def learning_curve(run_dir: str | os.PathLike[str], title: str = "", target: float | None = None) -> Path:
    """Draws mean returns of training and of tests (with one standard deviation) over environment steps.

    :param run_dir: folder with ``metrics.csv``.
    :param title: title of the picture.
    :param target: a return to mark by a line.
    :return: the path of the picture, ``learning_curve.png`` in that folder.
    :raises ValueError: if the metrics are damaged.
    """
    from matplotlib.figure import Figure

    run_dir = Path(run_dir)
    training, tests = (
        read_curves(run_dir / "metrics.csv", *which) for which in (("train", "mean"), ("test", "mean", "std"))
    )
    figure = Figure(figsize=(7, 4.5), layout="constrained")  # pyplot would keep global state and may need a window
    axes = figure.add_subplot()
    axes.plot(training["step"], training["mean"], color="C0", alpha=0.4, label="training")
    _draw_tests(axes, tests)
    if target is not None:
        axes.axhline(target, color="0.5", linestyle="--", linewidth=1, label=f"target {target:g}")
    axes.set(ylabel="return of an episode", title=title)
    _finish(axes)
    picture = BytesIO()
    figure.savefig(picture, dpi=150)
    replace_file(run_dir / "learning_curve.png", picture.getvalue())
    return run_dir / "learning_curve.png"


def compare(run_dirs: Sequence[str | os.PathLike[str]], path: Path, *, confidence: float = 0.95) -> dict[str, Curve]:
    """Draws the test returns of many runs, with a panel for each environment and a curve over the seeds of each
    configuration. Configurations of one algorithm are labelled by the settings that differ.

    :param run_dirs: folders of runs, or CSV files of their curves, each run once.
    :param path: the picture, whose suffix determines its format.
    :param confidence: confidence level of the bands.
    :return: the curves by their labels.
    :raises FileNotFoundError: if a folder is not that of a run.
    :raises ValueError: if a run has no tests yet, is given twice, or is damaged; if two runs have the same
        configuration and seed; or if the format is unknown.
    """
    groups = grouped(read_run(Path(run_dir)) for run_dir in run_dirs)
    labels = labels_of([*groups])
    curves = draw_panels(groups, labels, path, confidence=confidence)
    return {f"{labels[key]}, {key.env}": curve for key, curve in curves.items()}


_COLUMNS = 3
"""The largest number of panels beside each other."""


def draw_panels(
    groups: Mapping[Configuration, Sequence[RunCurve]],
    labels: Mapping[Configuration, str],
    path: Path,
    *,
    confidence: float = 0.95,
) -> dict[Configuration, Curve]:
    """Draws a panel for each environment, with the curve of each configuration over its runs.

    :param groups: the runs of each configuration.
    :param labels: the label of each configuration; equal labels have the same colour.
    :param path: the picture, whose suffix determines its format.
    :param confidence: confidence level of the bands.
    :return: the curves.
    """
    from matplotlib.figure import Figure

    curves = {
        key: aggregate([(run.steps, run.mean) for run in group], confidence=confidence) for key, group in groups.items()
    }
    environments = list(dict.fromkeys(key.env for key in curves))
    columns = min(len(environments), _COLUMNS)
    rows = -(-len(environments) // columns)
    colours = {label: f"C{number}" for number, label in enumerate(dict.fromkeys(labels.values()))}
    most = max(sum(key.env == env for key in curves) for env in environments)
    figure = Figure(figsize=(7 * columns, (4.5 + 0.2 * max(most - 3, 0)) * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).flatten()
    for axes, env in zip(panels, environments, strict=False):
        for key, curve in curves.items():
            if key.env == env:
                _draw_curve(axes, curve, labels[key], colours[labels[key]])
        axes.set(ylabel=f"return of a test (IQM, {confidence:.0%} confidence)", title=env)
        _finish(axes)
    for axes in panels[len(environments) :]:
        axes.set_axis_off()
    figure.savefig(path, dpi=150)
    return curves


def draw_profiles(
    groups: Mapping[Configuration, Sequence[RunCurve]], labels: Mapping[Configuration, str], path: Path
) -> list[str]:
    """Draws the performance profile of each algorithm: which fraction of its runs scores above each threshold.

    Scores are returns of last tests, on the tasks that all algorithms have learned; see :func:`normalized_scores`.

    :param groups: the runs of each configuration.
    :param labels: the label of each configuration, which is that of the algorithm.
    :param path: the picture, whose suffix determines its format. None is drawn if algorithms have no common task.
    :return: the tasks.
    """
    from matplotlib.figure import Figure

    scores = normalized_scores(groups, labels)
    common = [task for task in next(iter(scores.values()), {}) if all(task in own for own in scores.values())]
    if not common:
        return []
    shown = {label: {task: own[task] for task in common} for label, own in scores.items()}
    values = [score for own in shown.values() for one in own.values() for score in one]
    thresholds = np.linspace(min(0.0, *values), max(1.0, *values), 201)
    figure = Figure(figsize=(7, 4.5 + 0.2 * max(len(shown) - 3, 0)), layout="constrained")
    axes = figure.add_subplot()
    for number, (label, own) in enumerate(shown.items()):
        middle, low, high = performance_profile(own, thresholds)
        axes.plot(thresholds, middle, color=f"C{number}", label=label)
        axes.fill_between(thresholds, low, high, color=f"C{number}", alpha=0.2)
    title = f"{len(common)} tasks" if len(common) > 1 else common[0]
    axes.set(xlabel="normalized return", ylabel="fraction of runs above it (95% confidence)", title=title)
    _finish_legend(axes)
    figure.savefig(path, dpi=150)
    return common


def normalized_scores(
    groups: Mapping[Configuration, Sequence[RunCurve]], labels: Mapping[Configuration, str]
) -> dict[str, dict[str, list[float]]]:
    """Returns the last tests of runs, by label and task: 0 is the mean of the first tests of all runs of the task,
    before training, and 1 the mean of the last tests of the best algorithm. Tasks in which no algorithm improves are
    left out.

    :param groups: the runs of each configuration.
    :param labels: the label of each configuration.
    """
    scores: dict[str, dict[str, list[float]]] = {label: {} for label in labels.values()}
    for env in dict.fromkeys(key.env for key in groups):
        own = {key: [run.mean[-1] for run in group] for key, group in groups.items() if key.env == env}
        least = float(np.mean([run.mean[0] for key in own for run in groups[key]]))
        most = max(float(np.mean(last)) for last in own.values())
        if most > least:
            for key, last in own.items():
                scores[labels[key]][env] = [(one - least) / (most - least) for one in last]
    return scores


def _finish(axes: Axes) -> None:
    """Adds what all pictures have: few ticks of steps, such as 20k, a grid, and a legend below the curves."""
    from matplotlib.ticker import EngFormatter, MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(nbins=6))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set(xlabel="environment steps")
    _finish_legend(axes)


def _finish_legend(axes: Axes) -> None:
    axes.grid(alpha=0.3)
    place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.15)}
    axes.legend(**place, fontsize="small", frameon=False, ncols=_legend_columns(axes))


def _legend_columns(axes: Axes) -> int:
    """Returns how many labels fit beside each other."""
    longest = max((len(str(text)) for text in axes.get_legend_handles_labels()[1]), default=0)
    return max(1, min(3, 75 // (longest + 6)))


def _draw_curve(axes: Axes, curve: Curve, name: str, colour: str) -> None:
    label = f"{name} ({curve.runs} seed{'s' if curve.runs > 1 else ''})"
    axes.plot(curve.steps, curve.iqm, color=colour, label=label)
    axes.fill_between(curve.steps, curve.low, curve.high, color=colour, alpha=0.2)


def _draw_tests(axes: Axes, tests: dict[str, list[float]]) -> None:
    steps, mean, std = tests["step"], tests["mean"], tests["std"]
    axes.plot(steps, mean, color="C1", marker="o", markersize=3, label="test")
    low, high = ([m + sign * s for m, s in zip(mean, std, strict=True)] for sign in (-1, 1))
    axes.fill_between(steps, low, high, color="C1", alpha=0.2)
