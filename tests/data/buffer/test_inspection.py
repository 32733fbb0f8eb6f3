import numpy as np
import pytest

from data.buffer.rows import row
from rlfast.data import Batch, CachedReplayBuffer, ReplayBuffer, VectorReplayBuffer


def test_edges():
    assert ReplayBuffer(5).subbuffer_edges.tolist() == [0, 5]
    assert VectorReplayBuffer(9, 3).subbuffer_edges.tolist() == [0, 3, 6, 9]
    assert CachedReplayBuffer(ReplayBuffer(4), 2, 3).subbuffer_edges.tolist() == [0, 4, 7, 10]


@pytest.mark.parametrize(
    ("start", "stop", "rows"),
    [
        (2, 4, [2, 3]),
        (4, 2, [4, 0, 1]),
        (8, 7, [8, 9, 5, 6]),
        (5, 10, [5, 6, 7, 8, 9]),
        (0, 5, [0, 1, 2, 3, 4]),
        (3, 3, []),
    ],
)
def test_rows_of_a_stretch(start, stop, rows):
    assert VectorReplayBuffer(10, 2).get_buffer_indices(start, stop).tolist() == rows


@pytest.mark.parametrize(
    ("start", "stop"), [(1, 6), (8, 1), (6, 5), (4, 10), (0, 11), (10, 10), (-1, 3), (3, 0), (2, -1)]
)
def test_stretches_that_are_in_no_ring(start, stop):
    with pytest.raises(ValueError, match=f"rows {start} to {stop} are"):
        VectorReplayBuffer(10, 2).get_buffer_indices(start, stop)


def test_an_episode_over_the_edge():
    buffer = ReplayBuffer(5)
    for t in range(3):
        buffer.add(row(t, "T" * (t == 2)))
    for t in range(10, 14):
        ptr, _, _, start = buffer.add(row(t, "T" * (t == 13)))
    rows = buffer.get_buffer_indices(int(start[0]), int(ptr[0]) + 1)
    assert buffer[rows].obs.tolist() == [10, 11, 12, 13]


def test_missing_values_of_live_rows():
    buffer = VectorReplayBuffer(6, 2)
    for t in range(2):
        ids = np.array([0])
        buffer.add(
            Batch(
                obs=np.array([float(t)]),
                act=[0],
                rew=[0.0],
                terminated=[False],
                truncated=[False],
                obs_next=np.array([t + 1.0]),
            ),
            ids,
        )
    assert not buffer.hasnull()
    buffer.add(
        Batch(
            obs=np.array([np.nan]), act=[0], rew=[0.0], terminated=[False], truncated=[False], obs_next=np.array([5.0])
        ),
        [1],
    )
    assert buffer.hasnull()
    assert buffer.isnull().obs.tolist() == [False, False, True]


def test_columns_that_are_set_later():
    buffer = ReplayBuffer(4)
    for t in range(3):
        buffer.add(row(t))
    buffer.set_array_at_key(np.array([0.5, 1.5]), "returns", index=[0, 2])
    assert buffer[[0, 2]].returns.tolist() == [0.5, 1.5]
    assert np.isnan(buffer[1].returns)
    buffer.set_array_at_key(np.array([7.0]), "returns", index=[1])
    assert buffer[[0, 1, 2]].returns.tolist() == [0.5, 7.0, 1.5]
    buffer.set_array_at_key(np.arange(4), "count")
    assert buffer[[0, 1, 2]]["count"].tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="2 rows for a Batch of 4"):
        buffer.set_array_at_key(np.arange(2), "other")
    with pytest.raises(TypeError, match="cannot be None among int64"):
        buffer.set_array_at_key(np.arange(2), "other", index=[0, 1])
    assert "other" not in buffer[0]


def test_the_default_of_a_column_is_that_of_the_rows_of_its_time():
    buffer = ReplayBuffer(4)
    for t in range(2):
        buffer.add(row(t))
    buffer.set_array_at_key(np.array([1.5]), "returns", index=[0], default_value=7.0)
    assert buffer[[0, 1]].returns.tolist() == [1.5, 7.0]
    buffer.add(row(2))
    assert buffer[[0, 1, 2]].returns.tolist() == [1.5, 7.0, 0.0]
