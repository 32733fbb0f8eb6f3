"""Measures over runs and tasks, and learning curves, with bootstrapped confidence intervals (Agarwal et al.,
arXiv:2108.13264).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, SupportsFloat

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike, NDArray

MEASURES = ("iqm", "median", "mean", "optimality_gap")


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A measure with its confidence interval."""

    value: float
    """The measure of all runs."""
    low: float
    """Lower end of the interval; equal to ``value`` for a single run."""
    high: float
    """Upper end of the interval; equal to ``value`` for a single run."""


def intervals(
    scores: ArrayLike, *, target: float = 1.0, confidence: float = 0.95, resamples: int = 2000, seed: int = 0
) -> dict[str, Interval]:
    """Returns the measures of scores over runs and tasks.

    ``iqm`` is the mean of the middle half of all scores, ``median`` that of the tasks' means, ``mean`` that of all
    scores, and ``optimality_gap`` the mean distance below ``target``, where scores above it count as ``target``.
    The intervals are percentiles of the stratified bootstrap, which draws the runs of each task independently.

    :param scores: scores, ``[runs, tasks]`` or ``[runs]`` for one task, normalized if there are several tasks.
    :param target: the score that is as good as wanted, for the optimality gap.
    :param confidence: confidence level of the intervals, between 0 and 1.
    :param resamples: number of resamples of the bootstrap.
    :param seed: seed of the bootstrap.
    :return: an interval for each name of ``MEASURES``.
    :raises ValueError: there are no scores, they have more than two axes, or are not finite; or another argument is
        out of its range.

    >>> found = intervals([0.0, 1.0, 2.0, 3.0], target=2.0)
    >>> found["iqm"].value, found["mean"].value, found["optimality_gap"].value
    (1.5, 1.5, 0.75)
    """

    def measures(drawn: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.stack(
            (
                interquartile_mean(drawn.reshape(len(drawn), -1), 1),
                np.median(drawn.mean(axis=1), axis=-1),
                drawn.mean(axis=(1, 2)),
                target - np.minimum(drawn, target).mean(axis=(1, 2)),
            ),
            axis=-1,
        )

    found = bootstrap(measures, _table(scores), confidence=confidence, resamples=resamples, seed=seed)
    return {name: _interval(*ends) for name, *ends in zip(MEASURES, *found, strict=True)}


def probability_of_improvement(
    better: ArrayLike, than: ArrayLike, *, confidence: float = 0.95, resamples: int = 2000, seed: int = 0
) -> Interval:
    """Returns how likely a run of one algorithm scores more than a run of another, averaged over tasks.

    Equal scores count as half: the Mann-Whitney U statistic over the number of pairs.

    :param better: scores of the first algorithm, ``[runs, tasks]`` or ``[runs]``.
    :param than: scores of the second algorithm, with as many tasks; the number of runs may differ.
    :param confidence: confidence level of the interval, between 0 and 1.
    :param resamples: number of resamples of the bootstrap.
    :param seed: seed of the bootstrap.
    :return: the probability, 0 to 1.
    :raises ValueError: the numbers of tasks differ, or as for :func:`intervals`.

    >>> probability_of_improvement([1.0, 2.0], [1.0, 0.0]).value
    0.875
    """
    first, second = _table(better), _table(than)
    if first.shape[1] != second.shape[1]:
        raise ValueError(f"both must have scores of the same tasks, got {first.shape[1]} and {second.shape[1]} columns")

    def probability(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        pairs = x[:, :, None] - y[:, None, :]  # [resamples, runs, runs of the other, tasks]
        return np.asarray(((np.sign(pairs) + 1) / 2).mean(axis=(1, 2, 3)))

    return _interval(*bootstrap(probability, first, second, confidence=confidence, resamples=resamples, seed=seed))


def performance_profile(
    scores: ArrayLike | Mapping[str, ArrayLike],
    thresholds: ArrayLike,
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Returns which fraction of all scores lies above each threshold, with its confidence band.

    :param scores: scores, ``[runs, tasks]`` or ``[runs]``; or those of each task, ``[runs]``, by its name, where the
        numbers of runs may differ: then it is the mean fraction of the tasks.
    :param thresholds: the thresholds, ``[n]``.
    :param confidence: confidence level of the band, between 0 and 1.
    :param resamples: number of resamples of the bootstrap.
    :param seed: seed of the bootstrap.
    :return: the fraction, and the lower and the upper end of its band, each ``[n]``.
    :raises ValueError: as for :func:`intervals`.

    >>> performance_profile([0.0, 1.0, 2.0, 3.0], [0.5, 2.5])[0].tolist()
    [0.75, 0.25]
    """
    marks = np.asarray(thresholds, dtype=np.float64).reshape(-1)

    tables = [*map(_table, scores.values() if isinstance(scores, Mapping) else [scores])]
    columns = sum(table.shape[1] for table in tables)

    def profile(*drawn: NDArray[np.float64]) -> NDArray[np.float64]:
        above = [sum((one > mark).mean(axis=1).sum(axis=1) for one in drawn) / columns for mark in marks]
        return np.reshape(above, (len(marks), len(drawn[0]))).T

    return bootstrap(profile, *tables, confidence=confidence, resamples=resamples, seed=seed)


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A learning curve with its confidence band."""

    steps: NDArray[np.float64]
    """Environment steps, ``[n]``."""
    iqm: NDArray[np.float64]
    """Interquartile mean over the runs, ``[n]``."""
    low: NDArray[np.float64]
    """Lower end of the confidence band, ``[n]``."""
    high: NDArray[np.float64]
    """Upper end of the confidence band, ``[n]``."""
    runs: int
    """Number of runs."""


def aggregate(
    curves: Sequence[tuple[Sequence[float], Sequence[float]]],
    *,
    points: int = 200,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Curve:
    """Returns the interquartile mean over runs (Agarwal et al., arXiv:2108.13264), without the best and worst quarter.

    Each curve is interpolated linearly between its points, and extended by its last value if it ends early, as runs
    stop at their target return. The band is that of :func:`bootstrap`.

    :param curves: steps and returns of each run, in increasing order of steps.
    :param points: number of points, evenly spaced from the first step of all runs to the last.
    :param confidence: confidence level of the band.
    :param resamples: number of resamples of the bootstrap.
    :param seed: seed of the bootstrap.
    :return: the curve.
    :raises ValueError: if there is no curve, or an empty one.

    >>> curve = aggregate([([0, 10], [0.0, 1.0]), ([0, 10], [0.0, 3.0])], points=3)
    >>> curve.steps.tolist(), curve.iqm.tolist()
    ([0.0, 5.0, 10.0], [0.0, 1.0, 2.0])
    """
    if not curves or not all(len(steps) for steps, _ in curves):
        raise ValueError("there is nothing to aggregate: a run has no tests yet")
    steps = np.linspace(min(x[0] for x, _ in curves), max(x[-1] for x, _ in curves), points)
    returns = np.array([np.interp(steps, x, y) for x, y in curves])  # [runs, points]
    middle, low, high = bootstrap(
        lambda drawn: interquartile_mean(drawn, 1), returns, confidence=confidence, resamples=resamples, seed=seed
    )
    return Curve(steps=steps, iqm=middle, low=low, high=high, runs=len(curves))


def interquartile_mean(values: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """Returns the mean along an axis without the least and the largest quarter.

    :param values: the values.
    :param axis: the axis.
    """
    from scipy import stats

    mean: NDArray[np.float64] = stats.trim_mean(values, 0.25, axis=axis)
    return mean


def bootstrap(
    measure: Callable[..., NDArray[np.float64]],
    *tables: NDArray[np.float64],
    confidence: float,
    resamples: int,
    seed: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Returns a measure of runs with its interval: percentiles of the stratified bootstrap, which draws the runs of
    each column independently. That of a single run has no width.

    :param measure: a function of as many arrays ``[resamples, runs, columns]`` as there are tables, which returns
        ``[resamples, ...]``.
    :param tables: arrays ``[runs, columns]``.
    :param confidence: confidence level of the interval, between 0 and 1.
    :param resamples: number of resamples.
    :param seed: seed of the draws.
    :return: the measure, and the ends of its interval, each ``[...]``.
    :raises ValueError: ``confidence`` or ``resamples`` is out of its range.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence!r}")
    if resamples < 1:
        raise ValueError(f"resamples must be at least 1, got {resamples!r}")
    value = measure(*(table[None] for table in tables))[0]
    if max(map(len, tables)) == 1:
        return value, value, value
    rng = np.random.default_rng(seed)
    rows = [rng.integers(len(table), size=(resamples, *table.shape)) for table in tables]
    drawn = measure(*(np.take_along_axis(table[None], own, axis=1) for table, own in zip(tables, rows, strict=True)))
    low, high = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    return value, low, high


def _interval(value: SupportsFloat, low: SupportsFloat, high: SupportsFloat) -> Interval:
    return Interval(value=float(value), low=float(low), high=float(high))


def _table(scores: ArrayLike) -> NDArray[np.float64]:
    table = np.asarray(scores, dtype=np.float64)
    if table.ndim == 1:
        table = table[:, None]
    if table.ndim != 2 or not table.size:
        raise ValueError(f"scores must have the shape [runs, tasks] and a run, got the shape {np.shape(scores)}")
    if not np.isfinite(table).all():
        raise ValueError("scores must be finite numbers: a run has NaN or infinite scores")
    return table
