"""Schedules: numbers that are functions of the training step."""

from math import copysign, inf, isfinite


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
    :param factor: the factor by which it changes in ``steps`` steps, above 0. With 1 it never reaches ``end``.
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
            raise ValueError(f"start must not be 0 and must have the sign of end, got {start} and {end}")
        if end is not None and factor != 1 and (abs(end) > abs(start)) != (factor > 1) and end != start:
            raise ValueError(f"factor={factor} leads away from end={end}: it starts at {start}")
        self.start, self.factor, self.steps, self.end = start, factor, steps, end

    def __call__(self, step: float) -> float:
        """Return the number at a step."""
        try:
            value: float = self.start * self.factor ** (max(step, 0) / self.steps)
        except OverflowError:
            value = copysign(inf, self.start)
        if self.end is None or self.factor == 1:
            return value
        falls = (self.factor < 1) == (self.start > 0)
        return max(value, self.end) if falls else min(value, self.end)


def _check(**numbers: float) -> None:
    for name, number in numbers.items():
        if not isfinite(number):
            raise ValueError(f"{name} must be a finite number, got {number}")
