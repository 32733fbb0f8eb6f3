"""Draws and walks that the adapters share."""

import numpy as np
import pytest

from rlfast._core import randint
from rlfast.interop._columns import Columns, Leaf, draw

BOUNDS = [1, 2, 3, 7, 8, 1000, 65_536, 65_537, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 10**12]


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("count", [0, 1, 33, 257])
def test_draws_are_numpys_and_use_up_as_many_numbers(bound, count):
    answers = []
    for drawing in (np.random.randint, draw):
        np.random.seed(bound % 977)
        drawn = drawing(0, bound, size=count) if drawing is np.random.randint else drawing(bound, count)
        answers.append((drawn, np.random.randint(2**31)))
    (theirs, after), (ours, ours_after) = answers
    assert ours.dtype == theirs.dtype
    np.testing.assert_array_equal(ours, theirs)
    assert ours_after == after


def test_draws_come_from_the_generator_that_np_random_has_now():
    before = np.random.get_bit_generator()
    answers = []
    try:
        for drawing in (lambda: np.random.randint(0, 1000, size=20), lambda: draw(1000, 20)):
            np.random.set_bit_generator(np.random.PCG64(5))
            answers.append([drawing(), drawing()])
    finally:
        np.random.set_bit_generator(before)
    np.testing.assert_array_equal(*answers)


def test_draws_below_nothing_are_refused():
    with pytest.raises(ValueError, match="bound must be at least 1, got 0"):
        randint(np.random.get_bit_generator(), 0, 1)
    with pytest.raises(AttributeError, match="capsule"):
        randint(object(), 5, 1)
    with pytest.raises(ValueError, match=r"high <= 0|low >= high"):
        draw(0, 3)


def walked(ends, timeouts, rows, length, capacity=5):
    """``follow`` over 7 rows, of which the first two are gone; row i has the reward i."""
    columns = Columns(capacity, 1, Leaf(np.dtype(np.float32), (1,)), Leaf(np.dtype(np.int64), (1,)))
    for i in range(7):
        columns.add(np.full((1, 1), i), np.full((1, 1), i + 1), np.zeros(1), i, i in ends, i in timeouts)
    flags = [("dones",), ("timeouts",)]
    return [part.tolist() for part in columns.engine.follow(np.array(rows), length, ("rewards",), flags)]


def test_a_walk_stops_at_flags_and_at_the_newest_row():
    # Places 0..4 hold rows 5, 6, 2, 3, 4.
    values, last, before = walked({3}, {5}, [2, 3, 4, 0, 1], 3)
    assert values == [[2, 3, 0], [3, 0, 0], [4, 5, 0], [5, 0, 0], [6, 0, 0]]
    assert last == [3, 3, 0, 0, 1]
    assert before == [1, 0, 1, 0, 0]


def test_a_walk_goes_no_further_than_asked_and_around_the_end():
    values, last, before = walked((), (), [2, 3, 0], 4)
    assert values == [[2, 3, 4, 5], [3, 4, 5, 6], [5, 6, 0, 0]]
    assert (last, before) == ([0, 1, 1], [3, 3, 1])


def test_a_walk_over_what_is_not_there():
    columns = Columns(5, 1, Leaf(np.dtype(np.float32), (1,)), Leaf(np.dtype(np.int64), (1,)))
    engine = columns.engine
    assert [part.tolist() for part in engine.follow(np.array([3]), 2, ("rewards",), [])] == [[[0, 0]], [3], [0]]
    with pytest.raises(IndexError, match="5"):
        engine.follow(np.array([5]), 2, ("rewards",), [])
    with pytest.raises(ValueError, match="length must be at least 1, got 0"):
        engine.follow(np.array([0]), 0, ("rewards",), [])
    with pytest.raises(ValueError, match="one float32 a row, got <i8"):
        engine.follow(np.array([0]), 2, ("actions",), [])
    with pytest.raises(KeyError, match="nothing"):
        engine.follow(np.array([0]), 2, ("rewards",), [("nothing",)])
