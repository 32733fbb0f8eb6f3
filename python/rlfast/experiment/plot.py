"""Learning curves, drawn from the metrics of runs."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from rlfast.experiment.aggregate import Curve, aggregate
from rlfast.experiment.algorithms import algorithm_of
from rlfast.experiment.folder import read_config
from rlfast.utils.logger import CSVLogger

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from matplotlib.axes import Axes


def learning_curve(run_dir: str | os.PathLike[str], title: str = "", target: float | None = None) -> Path:
    """Draws mean returns over environment steps, of training and of the tests (with one standard deviation).

    :param run_dir: folder with ``metrics.csv``.
    :param title: stands above.
    :param target: return to mark with a line.
    :return: ``learning_curve.png`` in that folder.
    """
    from matplotlib.figure import Figure

    run_dir = Path(run_dir)
    rows = CSVLogger(run_dir / "metrics.csv").rows()
    figure = Figure(figsize=(7, 4.5), layout="constrained")  # not pyplot: no window, nothing global
    axes = figure.add_subplot()
    _draw_training(axes, rows)
    _draw_tests(axes, rows)
    if target is not None:
        axes.axhline(target, color="0.5", linestyle="--", linewidth=1, label=f"target {target:g}")
    axes.set(xlabel="environment steps", ylabel="return of an episode", title=title)
    axes.grid(alpha=0.3)
    axes.legend(loc="best")
    path = run_dir / "learning_curve.png"
    figure.savefig(path, dpi=150)
    return path


def compare(run_dirs: Sequence[Path], path: Path, *, confidence: float = 0.95) -> dict[str, Curve]:
    """Draws the tests of many runs: one line for each algorithm and environment, over all seeds.

    :param run_dirs: folders of runs.
    :param path: the picture; its suffix says of what kind.
    :param confidence: of the bands.
    :return: the lines, by what they are called.
    :raises FileNotFoundError: one of the folders is no run's.
    :raises ValueError: a run has no tests yet.
    """
    from matplotlib.figure import Figure

    groups: defaultdict[str, list[tuple[list[float], list[float]]]] = defaultdict(list)
    for run_dir in run_dirs:
        config = read_config(run_dir)
        tests = _tests(CSVLogger(run_dir / "metrics.csv").rows())
        if not tests:
            raise ValueError(f"{run_dir} has no tests yet")
        groups[f"{algorithm_of(config).title}, {config.env}"].append(
            ([float(row["step"]) for row in tests], [float(row["test/returns_stat/mean"]) for row in tests])
        )
    curves = {name: aggregate(group, confidence=confidence) for name, group in groups.items()}
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for number, (name, curve) in enumerate(curves.items()):
        label = f"{name} ({curve.runs} seed{'s' if curve.runs > 1 else ''})"
        axes.plot(curve.steps, curve.iqm, color=f"C{number}", label=label)
        axes.fill_between(curve.steps, curve.low, curve.high, color=f"C{number}", alpha=0.2)
    axes.set(xlabel="environment steps", ylabel=f"return of a test, IQM, {confidence:.0%} confidence")
    axes.grid(alpha=0.3)
    axes.legend(loc="best")
    figure.savefig(path, dpi=150)
    return curves


def _tests(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    return [row for row in rows if row["scope"] == "test"]


def _draw_training(axes: Axes, rows: list[dict[str, str]]) -> None:
    training = [row for row in rows if row["scope"] == "train"]
    steps = [int(row["step"]) for row in training]
    axes.plot(
        steps, [float(row["train/returns_stat/mean"]) for row in training], color="C0", alpha=0.4, label="training"
    )


def _draw_tests(axes: Axes, rows: list[dict[str, str]]) -> None:
    tests = _tests(rows)
    steps = [int(row["step"]) for row in tests]
    mean = [float(row["test/returns_stat/mean"]) for row in tests]
    std = [float(row["test/returns_stat/std"]) for row in tests]
    axes.plot(steps, mean, color="C1", marker="o", markersize=3, label="test")
    low, high = ([m + sign * s for m, s in zip(mean, std, strict=True)] for sign in (-1, 1))
    axes.fill_between(steps, low, high, color="C1", alpha=0.2)
