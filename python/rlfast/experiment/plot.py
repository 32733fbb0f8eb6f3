"""The learning curve of a run, drawn from its metrics."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rlfast.utils.logger import CSVLogger

if TYPE_CHECKING:
    import os

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


def _draw_training(axes: Axes, rows: list[dict[str, str]]) -> None:
    training = [row for row in rows if row["scope"] == "train"]
    steps = [int(row["step"]) for row in training]
    axes.plot(
        steps, [float(row["train/returns_stat/mean"]) for row in training], color="C0", alpha=0.4, label="training"
    )


def _draw_tests(axes: Axes, rows: list[dict[str, str]]) -> None:
    tests = [row for row in rows if row["scope"] == "test"]
    steps = [int(row["step"]) for row in tests]
    mean = [float(row["test/returns_stat/mean"]) for row in tests]
    std = [float(row["test/returns_stat/std"]) for row in tests]
    axes.plot(steps, mean, color="C1", marker="o", markersize=3, label="test")
    low, high = ([m + sign * s for m, s in zip(mean, std, strict=True)] for sign in (-1, 1))
    axes.fill_between(steps, low, high, color="C1", alpha=0.2)
