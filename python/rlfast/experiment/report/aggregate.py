"""Aggregation of learning curves over seeds: the interquartile mean with bootstrapped confidence bands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    stop at their target return. The band is the percentile bootstrap over runs of :func:`scipy.stats.bootstrap`; that
    of a single run has no width.

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
    from scipy import stats

    if not curves or not all(len(steps) for steps, _ in curves):
        raise ValueError("there is nothing to aggregate: a run has no tests yet")
    steps = np.linspace(min(x[0] for x, _ in curves), max(x[-1] for x, _ in curves), points)
    returns = np.array([np.interp(steps, x, y) for x, y in curves])  # [runs, points]

    def iqm(sample: NDArray[np.float64], axis: int = 0) -> NDArray[np.float64]:
        mean: NDArray[np.float64] = stats.trim_mean(sample, 0.25, axis=axis)
        return mean

    middle = low = high = iqm(returns)
    if len(curves) > 1:
        interval = stats.bootstrap(
            (returns,),
            iqm,
            axis=0,
            n_resamples=resamples,
            confidence_level=confidence,
            method="percentile",
            rng=np.random.default_rng(seed),
        ).confidence_interval
        low, high = interval.low, interval.high
    return Curve(steps=steps, iqm=middle, low=low, high=high, runs=len(curves))
