"""Measures over runs and tasks with bootstrapped confidence intervals (Agarwal et al., arXiv:2108.13264)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

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
    scores: ArrayLike,
    *,
    target: float = 1.0,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
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
    table = _table(scores)
    _check(confidence, resamples)
    drawn = _resampled(table, resamples, np.random.default_rng(seed))
    found = {}
    for name, measure in _measures(target).items():
        value = float(measure(table[None])[0])
        low, high = (value, value) if len(table) == 1 else _ends(measure(drawn), confidence)
        found[name] = Interval(value=value, low=float(low), high=float(high))
    return found


def probability_of_improvement(
    better: ArrayLike,
    than: ArrayLike,
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
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
    _check(confidence, resamples)

    def probability(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        pairs = x[:, :, None] - y[:, None, :]  # [resamples, runs, runs of the other, tasks]
        return np.asarray(((np.sign(pairs) + 1) / 2).mean(axis=(1, 2, 3)))

    rng = np.random.default_rng(seed)
    value = float(probability(first[None], second[None])[0])
    low, high = value, value
    if max(len(first), len(second)) > 1:
        drawn = probability(_resampled(first, resamples, rng), _resampled(second, resamples, rng))
        low, high = _ends(drawn, confidence)
    return Interval(value=value, low=float(low), high=float(high))


def performance_profile(
    scores: ArrayLike,
    thresholds: ArrayLike,
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Returns which fraction of all scores lies above each threshold, with its confidence band.

    :param scores: scores, ``[runs, tasks]`` or ``[runs]``.
    :param thresholds: the thresholds, ``[n]``.
    :param confidence: confidence level of the band, between 0 and 1.
    :param resamples: number of resamples of the bootstrap.
    :param seed: seed of the bootstrap.
    :return: the fraction, and the lower and the upper end of its band, each ``[n]``.
    :raises ValueError: as for :func:`intervals`.

    >>> performance_profile([0.0, 1.0, 2.0, 3.0], [0.5, 2.5])[0].tolist()
    [0.75, 0.25]
    """
    table = _table(scores)
    _check(confidence, resamples)
    marks = np.asarray(thresholds, dtype=np.float64).reshape(-1)
    drawn = _resampled(table, resamples, np.random.default_rng(seed))
    fraction = np.array([(table > mark).mean() for mark in marks])
    if len(table) == 1:
        return fraction, fraction, fraction
    bands = np.array([_ends((drawn > mark).mean(axis=(1, 2)), confidence) for mark in marks]).reshape(-1, 2)
    return fraction, bands[:, 0], bands[:, 1]


def _measures(target: float) -> dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]]:
    from scipy import stats

    def iqm(drawn: NDArray[np.float64]) -> Any:
        return stats.trim_mean(drawn.reshape(len(drawn), -1), 0.25, axis=1)

    return {
        "iqm": iqm,
        "median": lambda drawn: np.asarray(np.median(drawn.mean(axis=1), axis=-1)),
        "mean": lambda drawn: np.asarray(drawn.mean(axis=(1, 2))),
        "optimality_gap": lambda drawn: np.asarray(target - np.minimum(drawn, target).mean(axis=(1, 2))),
    }


def _table(scores: ArrayLike) -> NDArray[np.float64]:
    table = np.asarray(scores, dtype=np.float64)
    if table.ndim == 1:
        table = table[:, None]
    if table.ndim != 2 or not table.size:
        raise ValueError(f"scores must have the shape [runs, tasks] and a run, got the shape {np.shape(scores)}")
    if not np.isfinite(table).all():
        raise ValueError("scores must be finite numbers: a run has NaN or infinite scores")
    return table


def _check(confidence: float, resamples: int) -> None:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence!r}")
    if resamples < 1:
        raise ValueError(f"resamples must be at least 1, got {resamples!r}")


def _resampled(table: NDArray[np.float64], number: int, rng: np.random.Generator) -> NDArray[np.float64]:
    rows = rng.integers(len(table), size=(number, *table.shape))
    drawn: NDArray[np.float64] = np.take_along_axis(table[None], rows, axis=1)
    return drawn  # [resamples, runs, tasks]


def _ends(drawn: NDArray[np.float64], confidence: float) -> Any:
    return np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2])
