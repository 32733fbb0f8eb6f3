"""The returns of several runs of one experiment, and their pictures.

The capital letters of names are axes: R for runs, E for evaluations.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from rlfast.evaluation.curves import read_curves
from rlfast.evaluation.intervals import Interval, aggregate, intervals, performance_profile
from rlfast.utils import TensorboardLogger
from rlfast.utils.logger.base import DataScope

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

log = logging.getLogger(__name__)


@dataclass
class LoggedSummaryData:
    """Logged statistics of a sequence, an entry for each time it was logged."""

    mean: NDArray[Any]
    std: NDArray[Any]
    max: NDArray[Any]
    min: NDArray[Any]


@dataclass
class LoggedCollectStats:
    """Logged statistics of collects, an entry for each time they were logged; None for what was not."""

    env_step: NDArray[Any] | None = None
    n_collected_episodes: NDArray[Any] | None = None
    n_collected_steps: NDArray[Any] | None = None
    collect_time: NDArray[Any] | None = None
    collect_speed: NDArray[Any] | None = None
    returns_stat: LoggedSummaryData | None = None
    lens_stat: LoggedSummaryData | None = None

    @classmethod
    def from_data_dict(cls, data: dict[str, Any]) -> Self:
        """Returns the statistics of what a logger restores.

        :param data: arrays by name; dicts of arrays become summaries, and other names are left out.
        """
        known = {field.name for field in fields(cls)}
        parts: dict[str, Any] = {
            name: LoggedSummaryData(**value) if isinstance(value, dict) else value
            for name, value in data.items()
            if name in known
        }
        return cls(**parts)


@dataclass
class RLiableExperimentResult:
    """The returns of several runs of one experiment."""

    exp_dir: str
    """The folder of the folders of runs."""
    test_episode_returns_RE: NDArray[np.float64]  # noqa: N815 (the axes)
    """Mean returns of tests, ``[runs, tests]``."""
    train_episode_returns_RE: NDArray[np.float64]  # noqa: N815
    """Mean returns of training, ``[runs, log entries]``."""
    env_steps_E: NDArray[np.float64]  # noqa: N815
    """Environment steps before each test, ``[tests]``."""
    env_steps_train_E: NDArray[np.float64]  # noqa: N815
    """Environment steps before each log entry of training, ``[log entries]``."""

    @classmethod
    def load_from_disk(cls, exp_dir: str, max_env_step: int | None = None) -> Self:
        """Reads the returns of all runs in a folder, at any depth: those of rlfast, and TensorBoard's files of others.

        Runs are compared at the steps of the one that ends first; between two tests returns are interpolated linearly.

        :param exp_dir: the folder.
        :param max_env_step: what comes after that many environment steps is left out.
        :return: the returns.
        :raises FileNotFoundError: there is no such folder.
        :raises ValueError: there is no run with a test or training return in it, or a run is damaged.
        """
        folder = Path(exp_dir)
        if not folder.is_dir():
            raise FileNotFoundError(f"{exp_dir} is not a folder")
        runs = sorted({path.parent for name in ("metrics.csv", "events.out.tfevents.*") for path in folder.rglob(name)})
        runs = [run for run in runs if not any(parent in runs for parent in run.parents)]
        found = {}
        for scope in (DataScope.TEST, DataScope.TRAIN):
            curves = [_returns(run, scope) for run in runs]
            found[scope] = _common([curve for curve in curves if len(curve[0])], max_env_step)
        steps, returns = found[DataScope.TEST]
        train_steps, train_returns = found[DataScope.TRAIN]
        if not returns.size and not train_returns.size:
            raise ValueError(f"{exp_dir} has no run with returns of training or tests")
        return cls(
            exp_dir=str(exp_dir),
            test_episode_returns_RE=returns,
            train_episode_returns_RE=train_returns,
            env_steps_E=steps,
            env_steps_train_E=train_steps,
        )

    def _scores(self, scope: DataScope) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if scope not in (DataScope.TEST, DataScope.TRAIN):
            raise ValueError(f"scope must be DataScope.TEST or DataScope.TRAIN, got {scope!r}")
        test = scope is DataScope.TEST
        returns = self.test_episode_returns_RE if test else self.train_episode_returns_RE
        if not returns.size:
            raise ValueError(f"{self.exp_dir} has no returns of {'tests' if test else 'training'}")
        return (self.env_steps_E if test else self.env_steps_train_E), returns

    def intervals(self, scope: DataScope = DataScope.TEST, target: float = 1.0) -> dict[str, Interval]:
        """Returns rliable's measures of the last returns of the runs, with intervals of 95 % confidence.

        :param scope: the returns, of tests or of training.
        :param target: the return that is as good as wanted, for the optimality gap.
        :return: see :func:`rlfast.evaluation.intervals.intervals`.
        :raises ValueError: there are no such returns.
        """
        return intervals(self._scores(scope)[1][:, -1], target=target)

    def eval_results(
        self,
        algo_name: str | None = None,
        score_thresholds: NDArray[Any] | Sequence[float] | None = None,
        save_plots: bool = False,
        show_plots: bool = True,
        scope: DataScope = DataScope.TEST,
        ax_iqm: Axes | None = None,
        ax_profile: Axes | None = None,
        algo2color: dict[str, str] | None = None,
    ) -> tuple[Figure, Axes, Figure, Axes]:
        """Draws the interquartile mean over environment steps, and the performance profile of the last returns.

        :param algo_name: the name in the legends. Default: that of the folder.
        :param score_thresholds: returns of the profile's axis. Default: 101, from the least return to the largest.
        :param save_plots: whether to write ``iqm_sample_efficiency_curve.png`` and ``performance_profile.png``.
        :param show_plots: whether to show the pictures, which needs a screen or a notebook.
        :param scope: the returns, of tests or of training.
        :param ax_iqm: axes of another experiment, into which to draw the mean as well.
        :param ax_profile: axes of another experiment, into which to draw the profile as well.
        :param algo2color: colours by name.
        :return: figure and axes of the mean, figure and axes of the profile.
        :raises ValueError: there are no such returns.
        """
        import matplotlib.pyplot as plt

        steps, returns = self._scores(scope)
        name = algo_name or Path(self.exp_dir).name
        colour = (algo2color or {}).get(name)
        figure_iqm, axes_iqm = _axes(ax_iqm, "environment steps", "interquartile mean of returns")
        curve = aggregate([(steps.tolist(), row.tolist()) for row in returns], points=max(2, len(steps)))
        _draw(axes_iqm, curve.steps, (curve.iqm, curve.low, curve.high), name, colour)

        thresholds = np.linspace(returns.min(), returns.max(), 101) if score_thresholds is None else score_thresholds
        marks = np.asarray(thresholds, dtype=np.float64)
        figure_profile, axes_profile = _axes(ax_profile, "return", "fraction of runs above it")
        _draw(axes_profile, marks, performance_profile(returns[:, -1], marks), name, colour)
        if save_plots:
            figure_iqm.savefig(Path(self.exp_dir, "iqm_sample_efficiency_curve.png"))
            figure_profile.savefig(Path(self.exp_dir, "performance_profile.png"))
        if show_plots:
            plt.show(block=False)
        return figure_iqm, axes_iqm, figure_profile, axes_profile


def load_and_eval_experiments(
    log_dir: str,
    show_plots: bool = True,
    save_plots: bool = True,
    scope: DataScope | Literal["both"] = DataScope.TEST,
    max_env_step: int | None = None,
) -> RLiableExperimentResult:
    """Reads the returns of several runs, and draws them.

    :param log_dir: the folder of the folders of runs.
    :param show_plots: whether to show the pictures.
    :param save_plots: whether to write them into the folder.
    :param scope: which returns to draw; ``"both"`` for those of tests, then those of training.
    :param max_env_step: what comes after that many environment steps is left out.
    :return: the returns.
    :raises FileNotFoundError: there is no such folder.
    :raises ValueError: there are no such returns.
    """
    result = RLiableExperimentResult.load_from_disk(log_dir, max_env_step)
    for one in (DataScope.TEST, DataScope.TRAIN) if scope == "both" else (scope,):
        result.eval_results(show_plots=show_plots, save_plots=save_plots, scope=one)
    return result


def _returns(run: Path, scope: DataScope) -> tuple[list[float], list[float]]:
    """Returns steps and mean returns of a run."""
    metrics = run / "metrics.csv"
    if metrics.exists():
        curves = read_curves(metrics, scope.value, "mean")
        return curves["step"], curves["mean"]
    restored: Any = TensorboardLogger.restore_logged_data(str(run))
    data = LoggedCollectStats.from_data_dict(restored.get(scope.value, {}))
    if data.returns_stat is None or data.env_step is None:
        return [], []
    shortest = min(len(data.env_step), len(data.returns_stat.mean))  # a run that was stopped may lack the last entry
    return data.env_step[:shortest].tolist(), data.returns_stat.mean[:shortest].tolist()


def _common(
    curves: list[tuple[list[float], list[float]]], most: int | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns the steps of the run that ends first, and the returns of all runs at them."""
    if not curves:
        return np.zeros(0), np.zeros((0, 0))
    steps = np.array(min((x for x, _ in curves), key=lambda x: x[-1]), dtype=np.float64)
    if most is not None:
        steps = steps[steps <= most]
    return steps, np.array([np.interp(steps, x, y) for x, y in curves])


def _axes(given: Axes | None, x: str, y: str) -> tuple[Figure, Axes]:
    import matplotlib.pyplot as plt

    if given is not None:
        figure: Any = given.get_figure()
        return figure, given
    figure, axes = plt.subplots(figsize=(7, 5), layout="constrained")
    axes.set(xlabel=x, ylabel=y)
    axes.grid(alpha=0.3)
    return figure, axes


def _draw(axes: Axes, x: NDArray[Any], band: tuple[Any, Any, Any], name: str, colour: str | None) -> None:
    middle, low, high = band
    (line,) = axes.plot(x, middle, color=colour, label=name)
    axes.fill_between(x, low, high, color=line.get_color(), alpha=0.2)
    axes.legend(loc="best")
