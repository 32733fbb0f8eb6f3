import pytest

from rlfast.distributed import RateLimiter


def test_rows_may_be_inserted_until_the_first_sample_and_the_tolerance():
    limiter = RateLimiter(4.0, min_size=10, tolerance=3)
    assert limiter.insertable == 13
    limiter.insert(10)
    assert (limiter.insertable, limiter.ratio) == (3, 0.0)
    limiter.insert(3)
    assert limiter.insertable == 0


def test_samples_make_room_in_the_ratio():
    limiter = RateLimiter(4.0, min_size=10, tolerance=3)
    limiter.insert(13)
    limiter.sample(7)  # less than two rows' worth
    assert limiter.insertable == 1
    limiter.sample(1)
    assert limiter.insertable == 2
    limiter.insert(2)
    assert limiter.insertable == 0
    assert limiter.ratio == pytest.approx(8 / 5)


def test_a_tolerance_below_what_is_missing_does_not_hold_up_the_start():
    limiter = RateLimiter(0.5, min_size=100, tolerance=1)
    limiter.insert(40)
    limiter.sample(0)
    assert limiter.insertable == 61
    limiter.insert(61)
    assert limiter.insertable == 0


def test_steps_that_were_announced_and_lost_make_room_again():
    limiter = RateLimiter(1.0, min_size=1, tolerance=8)
    limiter.insert(9)
    limiter.insert(-4)
    assert (limiter.inserts, limiter.insertable) == (5, 4)


@pytest.mark.parametrize("per_insert", [0.1, 1 / 3, 7.0, 64.0])
def test_over_a_long_run_inserts_stay_within_the_tolerance(per_insert):
    limiter, learned = RateLimiter(per_insert, min_size=20, tolerance=5), 0.0
    for _ in range(500):
        limiter.insert(limiter.insertable)
        assert 4 - 1e-6 <= limiter.inserts - 20 - limiter.samples / per_insert <= 5 + 1e-6
        learned += 1.0  # one environment step's worth of samples
        limiter.sample(int(learned * per_insert) - limiter.samples)
    assert limiter.inserts - 20 == pytest.approx(500, abs=6 + 1 / per_insert)
    assert limiter.ratio == pytest.approx(per_insert, rel=0.05)


def test_counts_are_restored():
    limiter = RateLimiter(2.0, 5, 3)
    limiter.insert(7)
    limiter.sample(4)
    other = RateLimiter(2.0, 5, 3)
    other.load_state_dict(limiter.state_dict())
    assert (other.inserts, other.samples, other.insertable) == (7, 4, 3)


@pytest.mark.parametrize("state", [{}, {"inserts": 1}, {"inserts": -1, "samples": 0}, {"inserts": 1.5, "samples": 0}])
def test_a_damaged_state_changes_nothing(state):
    limiter = RateLimiter(2.0, 5, 3)
    limiter.insert(2)
    with pytest.raises(ValueError, match="numbers of rows"):
        limiter.load_state_dict(state)
    assert limiter.inserts == 2


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((0.0, 1, 1), "must be above 0"),
        ((-1.0, 1, 1), "must be above 0"),
        ((float("inf"), 1, 1), "must be a finite number"),
        ((float("nan"), 1, 1), "must be a finite number"),
        ((1.0, 0, 1), "min_size must be at least 1"),
        ((1.0, 1, 0), "tolerance must be at least 1"),
    ],
)
def test_numbers_out_of_range_are_named(arguments, error):
    with pytest.raises(ValueError, match=error):
        RateLimiter(*arguments)
