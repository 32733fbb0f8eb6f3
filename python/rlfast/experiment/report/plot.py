"""Pictures of learning curves from the metrics of runs."""

from __future__ import annotations

from collections import defaultdict
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rlfast.data.plain_data import summary
from rlfast.experiment.algorithms import algorithm_of
from rlfast.experiment.report.aggregate import Curve, aggregate
from rlfast.experiment.run_dir import read_config, replace_file
from rlfast.utils.logger import CSVLogger

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from matplotlib.axes import Axes


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
    axes.set(xlabel="environment steps", ylabel="return of an episode", title=title)
    axes.grid(alpha=0.3)
    axes.legend(loc="best")
    picture = BytesIO()
    figure.savefig(picture, dpi=150)
    replace_file(run_dir / "learning_curve.png", picture.getvalue())
    return run_dir / "learning_curve.png"


def compare(run_dirs: Sequence[Path], path: Path, *, confidence: float = 0.95) -> dict[str, Curve]:
    """Draws the test returns of many runs, with a panel for each environment and a curve over seeds for each algorithm.

    :param run_dirs: folders of runs, each once.
    :param path: the picture, whose suffix determines its format.
    :param confidence: confidence level of the bands.
    :return: the curves by their labels.
    :raises FileNotFoundError: if a folder is not that of a run.
    :raises ValueError: if a run has no tests yet, is given twice, or is damaged; or if the format is unknown.
    """
    from matplotlib.figure import Figure

    groups: defaultdict[tuple[str, str], list[tuple[list[float], list[float]]]] = defaultdict(list)
    seen: set[Path] = set()
    for run_dir in run_dirs:
        config = read_config(run_dir)
        if run_dir.resolve() in seen:
            raise ValueError(f"{run_dir} is given twice: it would count as two seeds")
        seen.add(run_dir.resolve())
        tests = read_curves(run_dir / "metrics.csv", "test", "mean")
        if not tests["step"]:
            raise ValueError(f"{run_dir} has no tests yet")
        groups[algorithm_of(config).title, config.env].append((tests["step"], tests["mean"]))
    curves = {names: aggregate(group, confidence=confidence) for names, group in groups.items()}
    environments = list(dict.fromkeys(env for _, env in curves))
    colours = {algorithm: f"C{number}" for number, algorithm in enumerate(dict.fromkeys(name for name, _ in curves))}
    figure = Figure(figsize=(7 * len(environments), 4.5), layout="constrained")
    panels = figure.subplots(1, len(environments), squeeze=False)[0]
    for axes, env in zip(panels, environments, strict=True):
        for algorithm, colour in colours.items():
            if (algorithm, env) in curves:
                _draw_curve(axes, curves[algorithm, env], algorithm, colour)
        axes.set(xlabel="environment steps", ylabel=f"return of a test, IQM, {confidence:.0%} confidence", title=env)
        axes.grid(alpha=0.3)
        axes.legend(loc="best")
    figure.savefig(path, dpi=150)
    return {", ".join(names): curve for names, curve in curves.items()}


def _draw_curve(axes: Axes, curve: Curve, name: str, colour: str) -> None:
    label = f"{name} ({curve.runs} seed{'s' if curve.runs > 1 else ''})"
    axes.plot(curve.steps, curve.iqm, color=colour, label=label)
    axes.fill_between(curve.steps, curve.low, curve.high, color=colour, alpha=0.2)


def read_curves(path: Path, scope: str, *wanted: str) -> dict[str, list[float]]:
    """Returns steps and statistics of returns from the log of a run.

    :param path: the file, ``metrics.csv``.
    :param scope: ``"train"`` or ``"test"``.
    :param wanted: names of statistics, such as ``"mean"``.
    :return: the numbers of environment steps under ``"step"``, and each statistic under its name.
    :raises ValueError: if the file is damaged.
    """
    rows = [row for row in CSVLogger(path).rows() if row["scope"] == scope and not _is_foreign(row, scope)]
    names = {"step": "step"} | {short: f"{scope}/returns_stat/{short}" for short in wanted}
    try:
        curves = {short: [float(row[name]) for row in rows] for short, name in names.items()}
    except (KeyError, ValueError) as error:
        raise ValueError(f"{path} is damaged: {summary(error)}") from error
    if not np.isfinite(curves["step"]).all():
        raise ValueError(f"{path} is damaged: a step is no number")
    return curves


def _is_foreign(row: dict[str, str], scope: str) -> bool:
    """Returns whether an entry has statistics, and none of returns, such as one that a callback of the user wrote."""
    present = [name for name, value in row.items() if value and name.startswith(f"{scope}/")]
    return bool(present) and not any(name.startswith(f"{scope}/returns_stat/") for name in present)


def _draw_tests(axes: Axes, tests: dict[str, list[float]]) -> None:
    steps, mean, std = tests["step"], tests["mean"], tests["std"]
    axes.plot(steps, mean, color="C1", marker="o", markersize=3, label="test")
    low, high = ([m + sign * s for m, s in zip(mean, std, strict=True)] for sign in (-1, 1))
    axes.fill_between(steps, low, high, color="C1", alpha=0.2)
