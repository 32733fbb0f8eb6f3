import copy
import pickle

import numpy as np
import pytest

from data.buffer.rows import fill, row, rows
from rlfast.data import (
    Batch,
    HERReplayBuffer,
    HERReplayBufferManager,
    HERVectorReplayBuffer,
    PrioritizedReplayBuffer,
    PrioritizedReplayBufferManager,
    PrioritizedVectorReplayBuffer,
    ReplayBuffer,
    ReplayBufferManager,
    VectorReplayBuffer,
)


def filled(steps=3, ends=("", "", "")):
    buffer = VectorReplayBuffer(12, 3, seed=0)
    for i in range(steps):
        buffer.add(rows(i, 3, "".join(end[i : i + 1] or " " for end in ends)))
    return buffer


def test_sizes_are_rounded_up():
    buffer = VectorReplayBuffer(10, 3)
    assert (buffer.maxsize, buffer.buffer_num, len(buffer)) == (12, 3, 0)
    assert buffer._offset.tolist() == [0, 4, 8]
    assert buffer.last_index.tolist() == [0, 4, 8]
    with pytest.raises(AssertionError):
        VectorReplayBuffer(10, 0)


def test_classes_are_related_as_in_tianshou():
    prioritized = PrioritizedVectorReplayBuffer(4, 2, alpha=0.6, beta=0.4)
    hindsight = HERVectorReplayBuffer(4, 2, compute_reward_fn=np.equal, horizon=5)
    for kind in (PrioritizedReplayBufferManager, PrioritizedReplayBuffer, ReplayBufferManager, ReplayBuffer):
        assert isinstance(prioritized, kind)
    for kind in (HERReplayBufferManager, ReplayBufferManager):
        assert isinstance(hindsight, kind)
    assert type(prioritized.buffers[0]) is PrioritizedReplayBuffer
    assert type(hindsight.buffers[0]) is HERReplayBuffer


def test_rows_go_to_their_rings():
    buffer = VectorReplayBuffer(12, 3)
    index, ep_rew, ep_len, ep_start = buffer.add(rows(0, 2, " T"), buffer_ids=[2, 0])
    assert (index.tolist(), ep_start.tolist()) == ([8, 0], [8, 0])
    assert (ep_rew.tolist(), ep_len.tolist()) == ([0, 100], [0, 1])
    buffer.add(rows(1, 3))
    assert buffer._lengths.tolist() == [2, 1, 2]
    assert buffer.sample_indices(0).tolist() == [0, 1, 4, 8, 9]
    assert buffer.sample_indices(None).tolist() == [0, 1, 4, 8, 9]
    assert buffer.unfinished_index().tolist() == [1, 4, 9]
    assert buffer.last_index.tolist() == [1, 4, 9]


def test_a_slice_gives_live_rows_only():
    """In Tianshou, v[0:4] of a part-filled vector buffer gave unfilled rows."""
    buffer = filled(steps=2)
    assert buffer[0:4].obs.tolist() == [0, 1, 100, 101]
    assert buffer[-1:].obs.tolist() == [201]
    assert len(buffer[:]) == 6


def test_neighbours_where_no_row_is_yet():
    buffer = filled(steps=2)
    assert buffer.prev(-1) == buffer.prev([buffer.maxsize - 1])[0] == 8
    assert buffer.next(-1) == buffer.next([buffer.maxsize - 1])[0] == 9
    assert buffer.prev([2, 3, 6]).tolist() == [0, 0, 4]


def test_children_see_and_write_the_same_rows():
    buffer = filled(steps=2)
    child = buffer.buffers[1]
    assert (len(child), child.maxsize, child._index, child._size) == (2, 4, 2, 2)
    assert child.obs.tolist() == [100, 101, 0, 0]
    index, _, ep_len, _ = child.add(row(7, "T"))
    assert (index.tolist(), ep_len.tolist()) == ([2], [3])
    assert buffer[6].obs == 7
    assert buffer.last_index.tolist() == [1, 6, 9]
    assert child.unfinished_index().tolist() == []
    assert buffer.buffers[2].unfinished_index().tolist() == [1]
    assert child.prev([2, 1]).tolist() == [1, 0]
    assert child[[0, -2]].obs.tolist() == [100, 7]
    assert child[:].obs.tolist() == [100, 101, 7]
    assert set(child.sample_indices(50).tolist()) == {0, 1, 2}
    assert set(child.sample(50)[0].obs.tolist()) == {100, 101, 7}
    assert child.append(obs=8.0, act=8, rew=8.0, terminated=False, truncated=False, obs_next=9.0) == 3
    child.reset()
    assert (len(child), len(buffer)) == (0, 4)
    with pytest.raises(NotImplementedError):
        child._meta.extra = np.zeros(4)


def test_a_manager_of_uneven_buffers():
    children = [ReplayBuffer(2), ReplayBuffer(5), ReplayBuffer(3)]
    buffer = ReplayBufferManager(children, seed=0)
    for i in range(4):
        buffer.add(rows(i, 3))
    assert buffer.maxsize == 10
    assert buffer.sample_indices(0).tolist() == [0, 1, 2, 3, 4, 5, 8, 9, 7]
    assert buffer.buffers[1] is children[1]
    assert children[2].obs.tolist() == [203, 201, 202]
    shares = np.bincount(buffer.sample_indices(9000), minlength=10) / 9000
    assert np.allclose(shares[buffer.sample_indices(0)], 1 / 9, atol=0.02)


def test_manager_constructor_errors():
    with pytest.raises(AssertionError, match="at least one"):
        ReplayBufferManager([])
    with pytest.raises(AssertionError, match="with rows"):
        ReplayBufferManager([ReplayBuffer(3), fill(ReplayBuffer(3), ".")])
    with pytest.raises(AssertionError, match="options"):
        ReplayBufferManager([ReplayBuffer(3), ReplayBuffer(3, stack_num=2)])
    with pytest.raises(AssertionError, match="PrioritizedReplayBuffer"):
        ReplayBufferManager([PrioritizedReplayBuffer(3, 0.6, 0.4), ReplayBuffer(3)])
    buffer = filled()
    with pytest.raises(NotImplementedError):
        buffer.update(ReplayBuffer(3))
    with pytest.raises(NotImplementedError):
        buffer.append(obs=1)


def test_reset_may_keep_what_the_running_episodes_have_so_far():
    buffer = filled()
    buffer.reset(keep_statistics=True)
    assert len(buffer) == 0
    _, ep_rew, ep_len, _ = buffer.add(rows(3, 3, "TTT"))
    assert (ep_rew.tolist(), ep_len.tolist()) == ([6, 406, 806], [4, 4, 4])
    buffer.reset()
    assert buffer.add(rows(3, 3, "TTT"))[2].tolist() == [1, 1, 1]


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda buffer: pickle.loads(pickle.dumps(buffer))])
def test_children_of_a_copy_belong_to_the_copy(clone):
    buffer = filled()
    other = clone(buffer)
    other.buffers[0].add(row(9))
    assert (len(buffer), len(other)) == (9, 10)
    assert other[3].obs == 9
    assert clone(buffer.buffers[1])[:].obs.tolist() == [100, 101, 102]


def test_environments_whose_infos_differ():
    buffer = VectorReplayBuffer(6, 2)
    buffer.add(Batch.stack([row(0, info={"a": 1}), row(1, info={"b": "x"})]))
    buffer.add(Batch.stack([row(2, info={"a": 2}), row(3, info={"a": 3, "c": 0.5})]))
    assert buffer.info.a.tolist() == [1, 2, 0, 0, 3, 0]
    assert buffer.info.b.tolist() == [None, None, None, "x", None, None]
    assert buffer.info.c.tolist() == [0, 0, 0, 0, 0.5, 0]


@pytest.mark.parametrize("ids", [[1, 0], (1, 0), np.array([1, 0]), np.array([1, 0], np.uint8), np.array([0, 1])[::-1]])
def test_buffer_ids_of_every_kind(ids):
    buffer = VectorReplayBuffer(6, 2)
    for i in range(3):
        assert buffer.add(rows(i, 2), ids)[0].tolist() == [3 + i, i]
    assert buffer.obs.tolist() == [100, 101, 102, 0, 1, 2]


@pytest.mark.parametrize("ids", [[0.0, 1.0], np.array([True, False]), ["0", "1"]])
@pytest.mark.parametrize("filled", [False, True])
def test_non_integer_buffer_ids_raise(ids, filled):
    buffer = VectorReplayBuffer(6, 2)
    if filled:
        buffer.add(rows(0, 2))
    with pytest.raises(TypeError, match="buffer ids are integers"):
        buffer.add(rows(1, 2), ids)
    assert len(buffer) == 2 * filled


@pytest.mark.parametrize("buffer", [ReplayBuffer(4), VectorReplayBuffer(8, 2)], ids=["single", "vector"])
def test_wrong_number_of_rows_raises(buffer):
    batch = Batch.stack([row(0), row(1)])
    with pytest.raises(AssertionError, match="one row for each buffer id: 1") as refused:
        buffer.add(batch, buffer_ids=[0])
    assert isinstance(refused.value, ValueError)
    assert len(buffer) == 0
