"""Pictures of learning curves from the metrics of runs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlfast.evaluation.curves import read_curves
from rlfast.evaluation.intervals import Curve, aggregate
from rlfast.experiment.algorithms import algorithm_of
from rlfast.experiment.run_dir import read_beyond, read_config, replace_file

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
    axes.set(ylabel="return of an episode", title=title)
    _finish(axes)
    picture = BytesIO()
    figure.savefig(picture, dpi=150)
    replace_file(run_dir / "learning_curve.png", picture.getvalue())
    return run_dir / "learning_curve.png"


def compare(run_dirs: Sequence[str | os.PathLike[str]], path: Path, *, confidence: float = 0.95) -> dict[str, Curve]:
    """Draws the test returns of many runs, with a panel for each environment and a curve over the seeds of each
    configuration. Configurations of one algorithm are labelled by the settings that differ.

    :param run_dirs: folders of runs, each once.
    :param path: the picture, whose suffix determines its format.
    :param confidence: confidence level of the bands.
    :return: the curves by their labels.
    :raises FileNotFoundError: if a folder is not that of a run.
    :raises ValueError: if a run has no tests yet, is given twice, or is damaged; if two runs have the same
        configuration and seed; or if the format is unknown.
    """
    groups = _grouped([*map(Path, run_dirs)])
    labels = _labels([*groups])
    curves = {key: aggregate([*map(_tests, group)], confidence=confidence) for key, group in groups.items()}
    names = {key: f"{labels[key]}, {key.env}" for key in groups}
    _draw_panels(curves, labels, path, confidence)
    return {names[key]: curve for key, curve in curves.items()}


_NO_CONFIGURATION = ("seed", "env_seeds", "run_dir", "progress", "save_buffer", "require_stop_return")
"""Settings in which the runs of one curve may differ: what they learn from is drawn from the same distribution."""


@dataclass(frozen=True)
class _Configuration:
    """What the runs of one curve have in common."""

    algorithm: str
    env: str
    settings: str
    """All other settings, as JSON."""

    @property
    def values(self) -> dict[str, Any]:
        """All other settings."""
        values: dict[str, Any] = json.loads(self.settings)
        return values


def _grouped(run_dirs: Sequence[Path]) -> dict[_Configuration, list[Path]]:
    """Returns the runs of each configuration.

    :raises ValueError: if a run is given twice, by one folder or two.
    """
    groups: dict[_Configuration, list[Path]] = {}
    seen: dict[Any, Path] = {}
    for run_dir in run_dirs:
        config = read_config(run_dir)
        values = json.loads(config.to_json()) | {"declared": read_beyond(run_dir)}
        settings = {name: value for name, value in values.items() if name not in ("env", *_NO_CONFIGURATION)}
        key = _Configuration(algorithm_of(config).title, config.env, json.dumps(settings))
        if run_dir.resolve() in seen:
            raise ValueError(f"{run_dir} is given twice: it would count as two seeds")
        if (other := seen.get((key, config.seed, config.env_seeds))) is not None:
            raise ValueError(
                f"{other} and {run_dir} are runs of the same configuration and the same seed {config.seed}, and would "
                "count as two seeds: leave one out"
            )
        seen |= {run_dir.resolve(): run_dir, (key, config.seed, config.env_seeds): run_dir}
        groups.setdefault(key, []).append(run_dir)
    return groups


def _tests(run_dir: Path) -> tuple[list[float], list[float]]:
    """Returns the steps and the mean returns of the tests of a run."""
    tests = read_curves(run_dir / "metrics.csv", "test", "mean")
    if not tests["step"]:
        raise ValueError(f"{run_dir} has no tests yet")
    return tests["step"], tests["mean"]


def _labels(keys: Sequence[_Configuration]) -> dict[_Configuration, str]:
    """Returns the label of each configuration: the algorithm, and the settings in which it differs from others of the
    same algorithm and environment.
    """
    labels = {}
    for key in keys:
        others = [one.values for one in keys if (one.algorithm, one.env) == (key.algorithm, key.env)]
        varied = [name for name in key.values if any(other.get(name) != key.values[name] for other in others)]
        parts = [f"{name.replace('_', ' ')} {_shown(key.values[name])}" for name in varied]
        labels[key] = ", ".join([key.algorithm, *parts])
    return labels


def _shown(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "on", False: "off", None: "none"}[value]
    if isinstance(value, list):
        return "-".join(map(_shown, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


_COLUMNS = 3
"""The largest number of panels beside each other."""


def _draw_panels(
    curves: dict[_Configuration, Curve], labels: dict[_Configuration, str], path: Path, confidence: float
) -> None:
    from matplotlib.figure import Figure

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


def _finish(axes: Axes) -> None:
    """Adds what all pictures have: few ticks of steps, such as 20k, a grid, and a legend below the curves."""
    from matplotlib.ticker import EngFormatter, MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(nbins=6))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set(xlabel="environment steps")
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
