"""Pearson's test that draws come from a distribution, without SciPy."""

import numpy as np
from numpy.typing import NDArray


def is_plausible(counts: NDArray[np.int64], probability: NDArray[np.float64]) -> bool:
    """Whether Pearson's statistic has p > 0.001. What cannot be drawn must not have been.

    Its quantile is Wilson and Hilferty's (1931): chi-square over its degrees of freedom is about the cube of a normal.
    """
    possible = probability > 0
    if counts[~possible].any():
        return False
    expected = counts.sum() * probability[possible] / probability.sum()
    if len(expected) == 1:
        return True
    if expected.min() < 5:
        raise ValueError(f"too few draws: the rarest outcome is expected {expected.min():.1f} times, wanted at least 5")
    statistic = ((counts[possible] - expected) ** 2 / expected).sum()
    freedom, normal_quantile = len(expected) - 1, 3.0902323
    spread = 2 / (9 * freedom)
    return bool(statistic < freedom * (1 - spread + normal_quantile * spread**0.5) ** 3)
