import numpy as np
import pytest

from data.buffer.rows import fill, rows
from rlfast.data import CachedReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer, VectorReplayBuffer


def make(main=6, caches=2, length=3, **options):
    return CachedReplayBuffer(ReplayBuffer(main, **options), caches, length, seed=0)


def plain(answer):
    return [array.tolist() for array in answer]


def test_cached_episode_moves_when_it_ends():
    buffer = make()
    assert (buffer.maxsize, buffer.buffer_num, buffer.cached_buffer_num) == (12, 3, 2)
    assert buffer._offset.tolist() == [0, 6, 9]
    assert plain(buffer.add(rows(0, 2))) == [[6, 9], [0, 0], [0, 0], [6, 9]]
    assert plain(buffer.add(rows(1, 2, "T "))) == [[1, 10], [1, 0], [2, 0], [0, 9]]
    assert len(buffer.main_buffer) == 2
    assert [len(cache) for cache in buffer.cached_buffers] == [0, 2]
    assert buffer.sample_indices(0).tolist() == [0, 1, 9, 10]
    assert plain(buffer.add(rows(2, 1, "t"), buffer_ids=[1])) == [[4], [203], [3], [2]]
    assert buffer.main_buffer[:].obs.tolist() == [0, 1, 100, 101, 2]


def test_both_environments_end_at_once():
    buffer = make()
    buffer.add(rows(0, 2))
    index, ep_rew, ep_len, ep_start = buffer.add(rows(1, 2, "Tt"))
    assert (index.tolist(), ep_start.tolist()) == ([1, 3], [0, 2])
    assert (ep_rew.tolist(), ep_len.tolist()) == ([1, 201], [2, 2])
    assert buffer.obs[:4].tolist() == [0, 1, 100, 101]
    assert buffer.unfinished_index().tolist() == []


def test_cached_main_buffer_of_size_zero_stores_nothing():
    buffer = make(main=0)
    buffer.add(rows(0, 2))
    index, ep_rew, ep_len, ep_start = buffer.add(rows(1, 2, "T "))
    assert (index.tolist(), ep_start.tolist()) == ([-1, 4], [-1, 3])
    assert (ep_rew.tolist(), ep_len.tolist()) == ([1, 0], [2, 0])
    assert len(buffer) == 2
    buffer.reset()
    assert len(buffer) == 0


def test_cache_keeps_last_rows_of_long_episode():
    buffer = make()
    for i in range(5):
        answer = buffer.add(rows(i, 1, "T" if i == 4 else ""), buffer_ids=[0])
    assert answer[2].tolist() == [5]
    assert buffer.main_buffer[:].obs.tolist() == [2, 3, 4]


def test_a_main_buffer_with_priorities():
    buffer = CachedReplayBuffer(PrioritizedReplayBuffer(6, 0.6, 0.4), 2, 3, seed=0)
    buffer.add(rows(0, 2, "T "))
    batch, indices = buffer.sample(50)
    assert set(indices.tolist()) == {0, 9}
    buffer.update_weight(indices, np.ones(50))
    assert batch.weight.tolist() == [1.0] * 50


def test_two_rows_of_one_cache_at_once():
    buffer = make()
    batch = rows(0, 3, "T  ")
    index, _, ep_len, ep_start = buffer.add(batch, buffer_ids=[1, 1, 0])
    assert (index.tolist(), ep_len.tolist(), ep_start.tolist()) == ([0, 9, 6], [1, 0, 0], [0, 9, 6])
    batch.act = np.array([1.0, 2.0, 0.5])
    with pytest.raises(TypeError, match="act"):
        buffer.add(batch, buffer_ids=[1, 1, 0])
    assert len(buffer) == 3


@pytest.mark.parametrize("ids", [[-1], [2]])
def test_unknown_cache_raises_index_error(ids):
    buffer = make()
    with pytest.raises(IndexError):
        buffer.add(rows(0, 1), buffer_ids=ids)
    assert len(buffer) == 0


def test_arguments_that_make_no_sense():
    for arguments in (
        (ReplayBuffer(3), 0, 3),
        (ReplayBuffer(3), 2, 0),
        ("main", 2, 3),
        (VectorReplayBuffer(4, 2), 2, 3),
    ):
        with pytest.raises(AssertionError):
            CachedReplayBuffer(*arguments)
    with pytest.raises(AssertionError, match="empty"):
        CachedReplayBuffer(fill(ReplayBuffer(3), "."), 2, 3)
