"""Aggregation of learning curves over seeds: the interquartile mean with bootstrapped confidence bands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray


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
