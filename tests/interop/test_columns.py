"""Random draws and n-step walks that the adapters share."""

import pickle

import numpy as np
import pytest

from rlfast._core import SchemaMismatch, discounted, randint, step_rows
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


def test_draws_use_current_np_random():
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


def test_walk_wraps_and_stops():
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


def columns_of(steps=4, envs=2, obs=(3,), act=(2,), **options):
    return Columns(
        steps, envs, Leaf(np.dtype(np.float32), obs), Leaf(np.dtype(np.float32), act, reshape=True), **options
    )


def added(rewards, dones=False, timeouts=0.0):
    """The numbers of a step of two environments as they were stored."""
    columns = columns_of()
    obs = np.ones((2, 3), np.float32)
    columns.add(obs, obs, np.ones(4, np.float32), rewards, dones, timeouts)
    return [columns.column(name)[0].tolist() for name in ("rewards", "dones", "timeouts")]


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f4", ">f8", "i1", "i4", "i8", "u8", "?"])
@pytest.mark.parametrize("spread", [1, 2, -1])
def test_any_dtype_and_stride_become_float32(dtype, spread):
    numbers = {1: [1, 0], 2: [1, 5, 0, 5], -1: [0, 1]}[spread]
    given = np.array(numbers, dtype)[::spread]
    wanted = given.astype(np.float32).tolist()
    assert added(given, given, given) == [wanted, wanted, wanted]


@pytest.mark.parametrize("given", [2.5, 3, True, np.float32(7), np.bool_(1), [2.5, 2.5], (1, 1), [True, np.True_]])
def test_numbers_that_are_no_arrays(given):
    wanted = np.broadcast_to(np.asarray(given, np.float32), (1, 2))[0].tolist()
    assert added(given, given, given) == [wanted, wanted, wanted]


@pytest.mark.parametrize(
    "rewards", [np.ones(2, "f4"), np.ones(2), np.ones(2, "i8"), np.ones(4, "?")[::2], [1.0, True], 1]
)
def test_a_usual_step_is_one_call_of_the_engine(rewards):
    columns, obs = columns_of(), np.ones((2, 3), np.float32)
    assert not columns.engine.record(obs, obs, np.ones(4, np.float32), rewards, rewards, 0.0)
    assert columns.column("rewards")[0].tolist() == columns.column("dones")[0].tolist() == [1, 1]


def test_float32_overflow_raises():
    with np.errstate(over="raise"), pytest.raises(FloatingPointError, match="overflow"):
        added(np.array([1e300, 0.0]))
    assert added(np.array([np.inf, -np.inf]))[0] == [np.inf, -np.inf]


@pytest.mark.parametrize("shape", [(4,), (2, 2), (2, 2, 1), (1, 4)])
@pytest.mark.parametrize("dtype", ["f4", "f8", ">f4", "i8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_actions_in_any_shape_of_as_many_entries(shape, dtype, order):
    columns = columns_of()
    given = np.array(np.arange(4).reshape(shape), dtype, order=order)
    columns.add(np.ones((2, 3)), np.ones((2, 3)), given, 0.0, 0.0, 0.0)
    np.testing.assert_array_equal(columns.column("actions")[0], given.reshape(2, 2))


@pytest.mark.parametrize(
    "change",
    [
        {"obs": np.zeros((2, 4))},
        {"obs_next": np.zeros((3, 3))},
        {"actions": np.zeros(5)},
        {"rewards": np.zeros(3)},
        {"dones": [True, False, True]},
        {"timeouts": np.zeros((2, 2))},
    ],
)
def test_a_step_that_does_not_fit_is_refused_whole(change):
    columns = columns_of()
    step = {"obs": np.zeros((2, 3)), "obs_next": np.zeros((2, 3)), "actions": np.zeros(4)}
    step |= {"rewards": np.zeros(2), "dones": np.zeros(2), "timeouts": np.zeros(2)}
    with pytest.raises(ValueError, match=r"shape|broadcast"):
        columns.add(**step | change)
    assert (len(columns.engine), columns.cursor) == (0, 0)
    with pytest.raises(SchemaMismatch):
        columns.engine.record(**step | change)
    assert len(columns.engine) == 0


def test_adding_says_whether_all_environments_went_on():
    columns, answers = columns_of(steps=3), []
    stream = [np.full((2, 3), i, np.float32) for i in range(8)]
    elsewhere = stream[3].copy()
    elsewhere[1, 2] = -1
    for obs, obs_next in [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (6, 7), (7, 0)]:
        answers.append(columns.add(stream[obs], stream[obs_next], np.zeros(4), 0.0, 0.0, 0.0))
    assert answers == [False, True, True, True, True, False, True]
    columns.reset()
    assert not columns.add(stream[0], stream[3], np.zeros(4), 0.0, 0.0, 0.0)
    assert not columns.add(elsewhere, stream[4], np.zeros(4), 0.0, 0.0, 0.0)  # the second environment did not


def test_dones_count_unless_they_are_timeouts():
    columns = columns_of(steps=4, envs=1, act=(1,))
    for done, timeout in [(0, 0), (1, 0), (1, 1), (0, 1)]:
        columns.add(np.zeros((1, 3)), np.zeros((1, 3)), np.zeros(1), 2.0, done, timeout)
    rows = np.array([3, 2, 1, 0, 1])
    fields = columns.take(rows)
    assert sorted(fields) == ["actions", "dones", "obs", "obs_next", "rewards"]
    assert (fields["dones"].tolist(), fields["rewards"].shape) == ([[0], [0], [1], [0], [1]], (5, 1))
    assert columns.take(rows, ("dones",))["dones"].shape == (5,)
    with pytest.raises(IndexError, match="4"):
        columns.take(np.array([4]))


def test_rows_of_steps():
    steps, envs = np.array([0, 4, -1, -5]), np.array([2, 0, 1, 3])
    assert step_rows(steps, 5).tolist() == [0, 4, 4, 0]
    assert step_rows(steps, 5, envs).tolist() == [10, 4, 9, 15]
    assert step_rows(steps.astype(np.int32)[None], 5, envs[None]).tolist() == [[10, 4, 9, 15]]
    for bad in (5, -6):
        with pytest.raises(IndexError, match=f"a step lies between -5 and 4, got {bad}"):
            step_rows(np.array([0, bad]), 5)
    with pytest.raises(ValueError, match="one environment for each step"):
        step_rows(steps, 5, envs[:2])
    assert steps.tolist() == [0, 4, -1, -5]


@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 9, 16, 31, 128, 129, 300])
def test_discounted_sums_are_numpys_to_the_bit(n):
    rng = np.random.default_rng(n)
    rewards = rng.normal(size=(200, n)).astype(np.float32)
    before = rng.integers(0, n, 200)
    powers = np.float32(0.9) ** np.arange(n, dtype=np.float32)
    after = np.float32(0.9) ** np.arange(1, n + 1, dtype=np.float32)
    sums, discounts = discounted(rewards, before, powers, after)
    terms = rewards * np.where(np.arange(n) <= before[:, None], powers, np.float32(0))
    np.testing.assert_array_equal(sums, terms.sum(axis=1, keepdims=True))
    np.testing.assert_array_equal(discounts, after[before][:, None])


@pytest.mark.parametrize(("before", "powers"), [([0, 3], 3), ([0, -1], 3), ([0], 3), ([0, 0], 2)])
def test_discounted_sums_of_what_does_not_fit(before, powers):
    with pytest.raises(ValueError, match=r"rewards \[B, n\] need before \[B\] below n"):
        discounted(np.zeros((2, 3), np.float32), np.array(before), *np.ones((2, powers), np.float32))


def test_unpickled_dtypes_are_equal():
    """Spaces come so from environments in other processes: as equal objects that are not the same."""
    float32, uint8 = (pickle.loads(pickle.dumps(np.dtype(kind))) for kind in (np.float32, np.uint8))
    assert float32 is not np.dtype(np.float32)
    columns = Columns(3, 2, {"seen": Leaf(uint8, (4,))}, Leaf(float32, (1,), reshape=True))
    obs, following = {"seen": np.ones((2, 4), np.uint8)}, {"seen": np.full((2, 4), 2, np.uint8)}
    for dtype in (np.dtype(np.float32), float32):
        columns.add(obs, following, np.array([0.5, 0.25], dtype), np.ones(2), np.zeros(2), 0.0)
    taken = columns.take(columns.rows(np.array([0, 1]), np.array([0, 1])))
    assert taken["actions"].tolist() == [[0.5], [0.25]]
    assert taken["obs_next"]["seen"].tolist() == [[2] * 4] * 2
