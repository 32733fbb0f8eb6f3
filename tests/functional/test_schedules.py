import math
import pickle

import pytest

from rlfast.functional.schedules import Exponential, Linear


@pytest.mark.parametrize(
    ("step", "value"), [(-1, 1.0), (0, 1.0), (25, 0.75), (99, 0.01), (100, 0.0), (101, 0.0), (math.inf, 0.0)]
)
def test_linear(step, value):
    assert Linear(1.0, 0.0, 100)(step) == pytest.approx(value)


def test_linear_upwards_and_at_once():
    assert Linear(0.4, 1.0, 10)(5) == pytest.approx(0.7)
    assert [Linear(1.0, 0.5, 0)(step) for step in (0, 1)] == [0.5, 0.5]


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ((2.0, 0.5), [2.0, 1.0, 0.5, 0.25]),
        ((2.0, 0.5, 2), [2.0, 2.0 * 0.5**0.5, 1.0, 2.0 * 0.5**1.5]),
        ((2.0, 0.5, 1, 0.75), [2.0, 1.0, 0.75, 0.75]),
        ((1.0, 1.5, 1, 2.0), [1.0, 1.5, 2.0, 2.0]),
        ((1.0, 3.0, 1, 5.0), [1.0, 3.0, 5.0, 5.0]),
        ((-2.0, 0.5, 1, -0.75), [-2.0, -1.0, -0.75, -0.75]),
        ((-1.0, 3.0, 1, -5.0), [-1.0, -3.0, -5.0, -5.0]),
        ((1.0, 0.5, 1, 1.0), [1.0] * 4),
        ((1.0, 0.5, 1, 0.0), [1.0, 0.5, 0.25, 0.125]),
        ((2.0, 1.0, 1, 0.5), [2.0] * 4),
        ((2.0, 1.0, 1, 5.0), [2.0] * 4),
        ((-2.0, 1.0, 1, -0.5), [-2.0] * 4),
    ],
)
def test_exponential(given, values):
    schedule = Exponential(*given)
    assert [schedule(step) for step in range(4)] == pytest.approx(values)
    assert schedule(-1) == given[0]


def test_exponential_without_end_grows_beyond_floats():
    assert Exponential(1.0, 10.0)(1e6) == math.inf
    assert Exponential(-1.0, 10.0)(1e6) == -math.inf
    assert Exponential(1.0, 10.0, end=7.0)(1e6) == 7.0
    assert Exponential(1.0, 0.5)(1e6) == 0.0


@pytest.mark.parametrize("schedule", [Linear(1, 0, 9), Exponential(1, 0.5)])
def test_schedules_are_pickled(schedule):
    assert pickle.loads(pickle.dumps(schedule))(3) == schedule(3)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Linear(1.0, 0.0, -1), "steps must not be negative, got -1"),
        (lambda: Linear(math.nan, 0.0, 1), "start must be a finite number, got nan"),
        (lambda: Linear(0.0, math.inf, 1), "end must be a finite number, got inf"),
        (lambda: Exponential(1.0, 0.0), "factor and steps must be above 0"),
        (lambda: Exponential(1.0, 0.5, 0), "factor and steps must be above 0"),
        (lambda: Exponential(0.0, 0.5), "start must not be 0"),
        (lambda: Exponential(1.0, 0.5, 1, -1.0), "must have the sign of end"),
        (lambda: Exponential(1.0, 0.5, 1, 2.0), "leads away from end=2.0"),
        (lambda: Exponential(1.0, 2.0, 1, 0.5), "leads away from end=0.5"),
    ],
)
def test_what_is_no_schedule(make, match):
    with pytest.raises(ValueError, match=match):
        make()


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    ("kind", "name"),
    [(Linear, "start"), (Linear, "end"), (Linear, "steps")]
    + [(Exponential, name) for name in ("start", "factor", "steps", "end")],
)
def test_every_number_is_finite(kind, name, number):
    given = {"start": 1.0, "end": 0.5, "steps": 2} | ({"factor": 0.5} if kind is Exponential else {})
    with pytest.raises(ValueError, match=f"{name} must be a finite number, got {number}"):
        kind(**given | {name: number})
