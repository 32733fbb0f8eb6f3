"""The measures, from their definitions, and the coverage of their intervals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlfast.evaluation.intervals import MEASURES, aggregate, intervals, performance_profile, probability_of_improvement

SCORES = np.array([[0.0, 4.0], [1.0, 8.0], [2.0, 0.0], [9.0, 4.0]])  # four runs of two tasks


def test_measures_are_those_of_the_paper():
    found = intervals(SCORES, target=3.0)
    assert set(found) == set(MEASURES)
    assert found["mean"].value == pytest.approx(3.5)
    assert found["median"].value == pytest.approx((3.0 + 4.0) / 2)  # of the means of the tasks
    assert found["iqm"].value == pytest.approx((1 + 2 + 4 + 4) / 4)  # without 0, 0 and 8, 9
    assert found["optimality_gap"].value == pytest.approx((3 + 2 + 1 + 0 + 0 + 0 + 3 + 0) / 8)


def test_one_run_has_no_interval():
    for found in intervals([2.0]).values():
        assert found.low == found.value == found.high


@pytest.mark.parametrize("name", MEASURES)
def test_intervals_cover_what_they_say(name):
    rng, hits = np.random.default_rng(0), 0
    truth = {"iqm": 0.0, "mean": 0.0, "median": 0.0, "optimality_gap": 5.0}[name]
    for trial in range(200):
        scores = rng.normal(size=(20, 1))
        found = intervals(scores, target=5.0, resamples=300, seed=trial)[name]
        hits += found.low <= truth <= found.high
    assert 0.85 * 200 <= hits <= 0.99 * 200  # 95 percent; the percentile bootstrap of 20 is a little narrow


def test_runs_of_a_task_are_drawn_independently_of_those_of_another():
    opposite = np.array([[0.0, 1.0], [1.0, 0.0]] * 10)  # each run has the mean 0.5, its tasks vary
    found = intervals(opposite)["mean"]
    assert found.low < 0.5 < found.high


def test_higher_confidence_is_a_wider_interval():
    wide, narrow = (intervals(SCORES, confidence=c)["mean"] for c in (0.99, 0.5))
    assert wide.low < narrow.low < narrow.high < wide.high


def test_results_repeat_and_depend_on_the_seed():
    assert intervals(SCORES, seed=3) == intervals(SCORES, seed=3)
    assert intervals(SCORES, seed=3, resamples=50) != intervals(SCORES, seed=4, resamples=50)


def test_probability_of_improvement_counts_pairs_within_tasks():
    found = probability_of_improvement([[1.0, 0.0], [2.0, 0.0]], [[1.0, 5.0]])
    assert found.value == pytest.approx((0.5 + 1.0 + 0 + 0) / 4)
    assert found.low <= found.value <= found.high


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=6), st.lists(st.integers(-3, 3), min_size=1, max_size=6))
def test_probabilities_of_the_two_directions_sum_to_one(first, second):
    there = probability_of_improvement(first, second, resamples=10).value
    back = probability_of_improvement(second, first, resamples=10).value
    assert there + back == pytest.approx(1.0)


def test_the_profile_is_the_fraction_strictly_above():
    fraction, low, high = performance_profile(SCORES, [-1.0, 0.0, 4.0, 9.0])
    assert fraction.tolist() == [1.0, 6 / 8, 2 / 8, 0.0]
    assert (low <= fraction).all()
    assert (fraction <= high).all()
    assert low[1] < high[1]


@pytest.mark.parametrize(
    ("scores", "options", "says"),
    [
        ([], {}, "shape"),
        (np.zeros((0, 3)), {}, "shape"),
        (np.zeros((2, 2, 2)), {}, "shape"),
        ([1.0, np.nan], {}, "finite"),
        ([1.0, 2.0], {"confidence": 1.0}, "confidence"),
        ([1.0, 2.0], {"resamples": 0}, "resamples"),
    ],
)
def test_bad_scores_are_refused(scores, options, says):
    for function in (intervals, lambda s, **o: performance_profile(s, [0.0], **o)):
        with pytest.raises(ValueError, match=says):
            function(scores, **options)


def test_the_same_tasks_are_needed():
    with pytest.raises(ValueError, match="same tasks, got 2 and 1"):
        probability_of_improvement(SCORES, [1.0])


def test_a_profile_of_tasks_with_different_numbers_of_runs():
    value, low, high = performance_profile({"a": [0.0, 2.0, 2.0, 2.0], "b": [1.0]}, [0.5, 1.5])
    assert value.tolist() == [0.875, 0.375]
    assert low[1] < 0.375 < high[1] <= 0.5
    equal = performance_profile({"a": SCORES[:, 0], "b": SCORES[:, 1]}, [0.5, 1.5, 4.0])[0]
    assert equal.tolist() == performance_profile(SCORES, [0.5, 1.5, 4.0])[0].tolist()
    with pytest.raises(ValueError, match="must have the shape"):
        performance_profile({"a": [1.0], "b": []}, [0.5])


def test_a_quarter_of_the_runs_at_each_end_is_left_out():
    curves = [([0.0, 100.0], [value, value]) for value in (-1000.0, 1.0, 2.0, 3.0, 4.0, 1000.0, 5.0, 6.0)]
    curve = aggregate(curves, points=5)
    assert curve.runs == 8
    np.testing.assert_allclose(curve.iqm, 3.5)  # of 2, 3, 4, 5
    assert curve.steps.tolist() == [0, 25, 50, 75, 100]
    assert (curve.low < 3.5).all()
    assert (curve.high > 3.5).all()


def test_curves_are_interpolated_and_go_on_with_their_last_value():
    curve = aggregate([([0, 50], [0.0, 10.0]), ([0, 100], [0.0, 20.0])], points=5)
    np.testing.assert_allclose(curve.iqm, [0.0, 5.0, 10.0, 12.5, 15.0])


def test_one_run_has_no_band():
    curve = aggregate([([0, 10], [1.0, 2.0])], points=2)
    assert curve.low.tolist() == curve.iqm.tolist() == curve.high.tolist() == [1.0, 2.0]


def test_the_band_covers_what_it_says():
    rng, hits = np.random.default_rng(0), 0
    for trial in range(200):
        values = rng.normal(size=20)
        curve = aggregate([([0, 1], [v, v]) for v in values], points=2, resamples=300, seed=trial)
        hits += curve.low[0] <= 0 <= curve.high[0]
    assert 0.85 * 200 <= hits <= 0.99 * 200  # 95 percent; the percentile bootstrap of 20 is a little narrow


@pytest.mark.parametrize("curves", [[], [([], [])], [([0], [1.0]), ([], [])]])
def test_nothing_to_aggregate(curves):
    with pytest.raises(ValueError, match="nothing to aggregate"):
        aggregate(curves)
