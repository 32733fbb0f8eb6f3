import numpy as np
import pytest

from rlfast.experiment.report.aggregate import aggregate


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
