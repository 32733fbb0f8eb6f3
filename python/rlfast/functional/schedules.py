"""Schedules: numbers that are functions of the training step."""

from collections.abc import Sequence
from itertools import pairwise
from math import isfinite


class Linear:
    """Linear interpolation from one number to another, and constant after that.

    :param start: the number at step 0.
    :param end: the number from step ``steps`` on.
    :param steps: the duration in steps, 0 or more.
    :raises ValueError: a number is not finite, or ``steps`` is negative.

    >>> epsilon = Linear(1.0, 0.5, 1000)
    >>> epsilon(0), epsilon(500), epsilon(5000)
    (1.0, 0.75, 0.5)
    """

    def __init__(self, start: float, end: float, steps: float) -> None:
        _check(start=start, end=end, steps=steps)
        if steps < 0:
            raise ValueError(f"steps must not be negative, got {steps}")
        self.start, self.end, self.steps = start, end, steps

    def __call__(self, step: float) -> float:
        """Return the number at a step."""
        if step >= self.steps:
            return self.end
        return self.start + (self.end - self.start) * max(step, 0) / self.steps


class Exponential:
    """Exponential decay or growth, up to a bound.

    :param start: the number at step 0; not 0.
    :param factor: the factor by which it changes in ``steps`` steps, above 0.
    :param steps: see ``factor``. Default: 1.
    :param end: the bound, which has the sign of ``start``; None for none. Default: None.
    :raises ValueError: a number is not finite or out of its range.

    >>> rate = Exponential(1.0, 0.5, steps=100, end=0.1)
    >>> rate(0), rate(200), rate(10_000)
    (1.0, 0.25, 0.1)
    """

    def __init__(self, start: float, factor: float, steps: float = 1, end: float | None = None) -> None:
        _check(start=start, factor=factor, steps=steps, end=0.0 if end is None else end)
        if factor <= 0 or steps <= 0:
            raise ValueError(f"factor and steps must be above 0, got {factor} and {steps}")
        if start == 0 or (end is not None and start * end < 0):
            raise ValueError(f"start must not be 0, nor of another sign than end, got {start} and {end}")
        if end is not None and (abs(end) > abs(start)) != (factor > 1) and end != start:
            raise ValueError(f"factor={factor} leads away from end={end}: it starts at {start}")
        self.start, self.factor, self.steps, self.end = start, factor, steps, end

    def __call__(self, step: float) -> float:
        """Return the number at a step."""
        try:
            value: float = self.start * self.factor ** (max(step, 0) / self.steps)
        except OverflowError:
            value = float("inf") if self.start > 0 else float("-inf")
        if self.end is None:
            return value
        falls = (self.factor < 1) == (self.start > 0)
        return max(value, self.end) if falls else min(value, self.end)


class Piecewise:
    """Linear interpolation between points; constant before the first and after the last point.

    :param points: one or more pairs of step and number, in ascending order of steps.
    :raises ValueError: there is no point, a number is not finite, or the steps are not ascending.

    >>> clip = Piecewise([(0, 0.2), (100, 0.1), (300, 0.0)])
    >>> clip(-5), clip(50), clip(200), clip(1000)
    (0.2, 0.15..., 0.05, 0.0)
    """

    def __init__(self, points: Sequence[tuple[float, float]]) -> None:
        self.points = [(float(step), float(value)) for step, value in points]
        if not self.points:
            raise ValueError("a schedule needs a point, (step, number)")
        for step, value in self.points:
            _check(step=step, value=value)
        if any(later <= earlier for (earlier, _), (later, _) in pairwise(self.points)):
            raise ValueError(f"steps must grow from point to point, got {[step for step, _ in self.points]}")

    def __call__(self, step: float) -> float:
        """Return the number at a step."""
        (first, value) = self.points[0]
        if step <= first:
            return value
        for (start, low), (end, high) in pairwise(self.points):
            if step < end:
                return low + (high - low) * (step - start) / (end - start)
        return self.points[-1][1]


def _check(**numbers: float) -> None:
    for name, number in numbers.items():
        if not isfinite(number):
            raise ValueError(f"{name} must be a finite number, got {number}")
