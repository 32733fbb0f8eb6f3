"""Assignments to Tianshou's private attributes, and rows and columns that are written through ``_meta``."""

import pickle

import numpy as np
import pytest

from data.buffer.rows import fill, row
from rlfast.data import Batch, HERReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer, VectorReplayBuffer


def filled(rows, size=4, **options):
    return fill(ReplayBuffer(size, **options), "." * rows)


def storage(n, **columns):
    flags = np.zeros(n, bool)
    rows = np.arange(n)
    return Batch(
        {
            "obs": rows,
            "act": rows * 1.0,
            "rew": rows * 2.0,
            "terminated": flags,
            "truncated": flags,
            "obs_next": rows + 1,
        }
        | columns
    )


def test_set_batch_then_size():
    """As ``from_data`` of Tianshou does."""
    buffer = ReplayBuffer(4)
    buffer.set_batch(storage(4, terminated=np.array([0, 1, 0, 1], bool)))
    assert (len(buffer), buffer.obs.tolist(), buffer.rew.tolist()) == (0, [0, 1, 2, 3], [0, 2, 4, 6])
    buffer._size = 4
    assert (len(buffer), buffer._index, buffer._store.plain) == (4, 0, True)
    assert buffer.sample_indices(0).tolist() == [0, 1, 2, 3]
    assert buffer[:].obs_next.tolist() == [1, 2, 3, 4]
    assert buffer.next([0, 1, 2, 3]).tolist() == [1, 1, 3, 3]
    buffer.add(row(9))
    assert buffer[:].obs.tolist() == [1, 2, 3, 9]


@pytest.mark.parametrize("names", [("_size", "_index"), ("_index", "_size")])
def test_a_part_of_a_storage_is_counted(names):
    buffer = ReplayBuffer(4)
    buffer.set_batch(storage(4, terminated=np.array([0, 1, 0, 1], bool)))
    for name in names:
        setattr(buffer, name, 2)
    assert (len(buffer), buffer._index, buffer[:].rew.tolist()) == (2, 2, [0.0, 2.0])
    assert buffer[:].terminated.tolist() == [False, True]
    buffer._size = 3  # rows that were not live are still there
    assert (buffer[:].obs.tolist(), buffer[:].terminated.tolist()) == ([0, 1, 2], [False, True, False])
    assert buffer.add(row(9))[0] == [3]
    assert buffer[:].obs.tolist() == [0, 1, 2, 9]


def test_a_full_ring_is_turned_and_emptied():
    buffer = filled(6)
    buffer._index = 3
    assert buffer[:].obs.tolist() == [3, 4, 5, 2]
    buffer._size = 0
    assert (len(buffer), buffer._index) == (0, 0)
    assert buffer.add(row(9))[0] == [0]


def test_a_ring_of_a_manager_is_counted():
    buffer = VectorReplayBuffer(6, 2)
    buffer.set_batch(storage(6))
    assert buffer.buffers[1].obs.tolist() == [3, 4, 5]
    buffer.buffers[1]._size = 2
    assert (len(buffer), buffer[:].obs.tolist(), buffer._lengths.tolist()) == (2, [3, 4], [0, 2])
    with pytest.raises(AttributeError, match="each of its buffers"):
        buffer._size = 2


@pytest.mark.parametrize(
    ("name", "value"),
    [("_size", 5), ("_size", -1), ("_index", 4), ("_index", -1), ("_index", 1), ("_ep_idx", 4), ("last_index", [0])],
)
def test_impossible_private_states_raise(name, value):
    buffer = filled(3)
    with pytest.raises(ValueError, match=name):
        setattr(buffer, name, value)
    assert buffer[:].obs.tolist() == [0, 1, 2]


def test_priorities_stay_where_rows_do():
    buffer = PrioritizedReplayBuffer(4, 0.5, 0.5)
    for t in range(3):
        buffer.add(row(t))
    buffer.update_weight(np.array([0]), 4.0)
    buffer._size = 2
    assert buffer.weight[np.arange(4)] == pytest.approx([2.0, 1.0, 0.0, 0.0])


def test_the_running_episode_is_assigned():
    buffer = filled(3)
    buffer._ep_rew, buffer._ep_len, buffer._ep_idx = 10.0, 5, 2
    assert [int(part[0]) for part in buffer.add(row(3, "T"))] == [3, 13, 6, 2]


def test_all_rows_of_the_storage():
    assert filled(3)._indices.tolist() == [0, 1, 2, 3]
    assert VectorReplayBuffer(6, 2).buffers[1]._indices.tolist() == [0, 1, 2]


def test_last_index_is_read_only():
    buffer = filled(3)
    buffer.last_index = np.array([2])
    with pytest.raises(ValueError, match="read-only"):
        buffer.last_index[0] = 1


def test_samples_of_whole_stacks_are_switched_on():
    buffer = filled(4, stack_num=2)
    buffer._sample_avail = True
    assert buffer.sample_indices(0).tolist() == [1, 2, 3]


def test_rows_are_written_through_meta():
    buffer = filled(3)
    buffer._meta[1] = row(7, "T")
    assert (buffer.obs.tolist(), buffer[1].obs_next, buffer[0].obs_next) == ([0, 7, 2, 0], 8, 1)
    assert buffer.next([0, 1, 2]).tolist() == [1, 1, 2]
    buffer._meta[[0, 1]] = buffer._meta[[1, 2]]
    assert (buffer.rew.tolist(), buffer[:].done.tolist()) == ([7, 2, 2, 0], [True, False, False])
    buffer._meta[0] = Batch(rew=5.0)  # as in a Batch, the rest is zero
    assert (buffer[0].rew, buffer[0].obs, buffer[0].done) == (5.0, 0, False)
    buffer._meta.empty_(1)
    assert buffer.rew.tolist() == [5, 0, 2, 0]


def test_rows_of_a_child_are_written_through_meta():
    buffer = VectorReplayBuffer(6, 2)
    buffer.set_batch(storage(6))
    buffer.buffers[1]._meta[0] = row(8)
    assert buffer.obs.tolist() == [0, 1, 2, 8, 4, 5]


@pytest.mark.parametrize(
    ("value", "error"), [(Batch(nope=1), ValueError), (Batch(act=0.5), TypeError), (3, ValueError)]
)
def test_rows_that_columns_cannot_hold(value, error):
    buffer = filled(3)
    with pytest.raises(error):
        buffer._meta[1] = value
    assert buffer[:].rew.tolist() == [0, 1, 2]


def test_columns_are_updated_and_stay_arrays():
    buffer = filled(3)
    buffer._meta.update({"rew": np.arange(4.0) * 2}, more=np.arange(4))
    assert (buffer[:].rew.tolist(), buffer[:].more.tolist()) == ([0, 2, 4], [0, 1, 2])
    with pytest.raises(TypeError, match="arrays"):
        buffer._meta.to_torch()


def test_assigned_flags_end_episodes():
    buffer = filled(3)
    buffer._meta.terminated = np.array([0, 1, 0, 0], bool)
    assert buffer.next([0, 1, 2]).tolist() == [1, 1, 2]
    assert (buffer[:].terminated.tolist(), buffer[:].done.tolist()) == ([False, True, False], [False, True, False])
    buffer._meta.done = np.array([1, 1, 0, 0], bool)
    assert (buffer[:].terminated.tolist(), buffer[:].truncated.tolist()) == ([False, True, False], [True, False, False])
    assert buffer.prev([0, 1, 2]).tolist() == [0, 1, 2]


def test_a_storage_of_another_kind_can_be_read():
    buffer = filled(4)
    buffer.set_batch(storage(4, obs=np.ones((4, 2)), obs_next=np.ones((4, 2)), act=np.arange(4) + 0.5))
    assert (buffer[:].obs.shape, buffer[:].act.tolist()) == ((4, 2), [0.5, 1.5, 2.5, 3.5])
    with pytest.raises(ValueError, match="another structure"):
        buffer.add(row(9))


@pytest.mark.parametrize("make", [lambda: filled(3), lambda: VectorReplayBuffer(4, 2)])
def test_maxsize_cannot_be_changed(make):
    buffer = make()
    for owner in [buffer, *getattr(buffer, "buffers", [])]:
        size = owner.maxsize
        with pytest.raises(AttributeError, match="maxsize is fixed: make a buffer of another size"):
            owner.maxsize = size + 1
        owner.maxsize = size
        assert owner.maxsize == size
    assert pickle.loads(pickle.dumps(buffer)).maxsize == 4


def test_arguments_of_other_buffers_are_ignored():
    with pytest.warns(UserWarning, match="ReplayBuffer ignores the arguments alpha, beta"):
        assert ReplayBuffer(4, beta=0.4, alpha=0.6).maxsize == 4
    with pytest.warns(UserWarning, match="VectorReplayBuffer ignores the arguments stacknum"):
        assert VectorReplayBuffer(4, 2, stacknum=4, stack_num=2).stack_num == 2
    with pytest.warns(UserWarning, match="not whole: 4 is taken"):
        assert ReplayBuffer(4.7).maxsize == 4
    with pytest.warns(UserWarning, match="not whole: 11 is taken"):
        assert VectorReplayBuffer(10.5, 3).maxsize == 12
    with pytest.raises(TypeError, match="stack_num must be an integer"):
        ReplayBuffer(4, stack_num=2.5)


def test_priorities_of_odd_types():
    buffer = PrioritizedReplayBuffer(4, np.float32(0.5), np.array(0.4), weight_norm=0)
    for t in range(3):
        buffer.add(row(t))
    assert (buffer._alpha, buffer._beta, buffer._weight_norm) == (0.5, 0.4, False)
    buffer.update_weight(np.array([0, 1]), 4.0)
    buffer.update_weight([2], 9.0)
    buffer.update_weight(slice(1, 3), np.array([16.0]))
    assert buffer.weight[np.arange(4)] == pytest.approx([2.0, 4.0, 4.0, 0.0])
    with pytest.raises(ValueError, match="one priority for each"):
        buffer.update_weight(np.array([0, 1]), np.array([]))
    buffer._beta, buffer._max_prio = 0.9, 25.0
    buffer.add(row(3))
    assert (buffer._beta, buffer.weight[3]) == (0.9, pytest.approx(5.0))


def test_the_smallest_priority_follows_from_the_rows():
    buffer = PrioritizedReplayBuffer(3, 0.5, 0.4, weight_norm=False)
    assert buffer._min_prio == 1.0
    for t in range(3):
        buffer.add(row(t))
    buffer.update_weight(np.arange(3), np.array([4.0, 9.0, 16.0]))
    assert buffer._min_prio == pytest.approx(4.0)
    assert buffer.get_weight(1) == pytest.approx((9 / buffer._min_prio) ** (-0.5 * 0.4))
    buffer.update_weight(np.array([0]), np.array([0.25]))
    assert buffer._min_prio == pytest.approx(0.25)
    for t in range(3, 6):
        buffer.add(row(t))  # in place of the others, with the largest priority
    assert buffer._min_prio == pytest.approx(16.0)
    with pytest.raises(AttributeError, match="_min_prio"):
        buffer._min_prio = 2.0
    with pytest.raises(AttributeError, match="_min_prio"):
        ReplayBuffer(3)._min_prio


def test_buffer_ids_from_the_end():
    buffer = VectorReplayBuffer(6, 2)
    rows = storage(2)
    for _ in range(2):
        assert buffer.add(rows, [-1, -2])[0].tolist()[0] >= 3
    with pytest.raises(IndexError, match="-3"):
        buffer.add(rows, [-3, 0])
    assert len(buffer) == 4


def test_frames_below_one():
    with pytest.raises(ValueError, match="stack_num must be at least 1, got 0"):
        filled(3).get([0, 1], "obs", stack_num=0)


def test_hindsight_is_changed():
    buffer = HERReplayBuffer(4, lambda a, b: a, horizon=3)
    buffer.future_p, buffer.horizon = 0.5, 2
    assert (buffer.future_p, buffer._config.relabel.future_k, buffer.horizon) == (0.5, 2.0, 2)
    buffer.future_p = 0
    other = np.maximum
    buffer.compute_reward_fn = other
    assert (buffer.future_p, buffer.compute_reward_fn) == (0.0, other)
    with pytest.raises(ValueError, match="probability"):
        buffer.future_p = 1.5


def test_rows_join_a_storage_that_lacks_fields_or_has_more():
    buffer = ReplayBuffer(4)
    for i in range(2):
        buffer.add(row(i, info={"k": i + 1}, policy={"logp": 0.5}))
    storage = {key: np.array(buffer._meta[key]) for key in ("obs", "act", "rew", "terminated", "truncated", "obs_next")}
    buffer.set_batch(Batch(storage, info={"seen": np.arange(4)}, policy=Batch()))
    buffer.add(row(2, info={"k": 7}, policy={"logp": 0.25}))
    assert buffer.info.k[:3].tolist() == [0, 0, 7]
    assert buffer.info.seen[:3].tolist() == [0, 1, 0]
    assert buffer.policy.logp[:3].tolist() == [0.0, 0.0, 0.25]


@pytest.mark.parametrize("index", [1, -1, np.int64(1), np.array(1)])
def test_values_inside_of_one_row_are_scalars(index):
    buffer = ReplayBuffer(2)
    for number in range(2):
        info = {"env_id": number, "parts": {"share": number / 2, "name": f"row {number}", "place": np.full(2, number)}}
        row = {"obs": {"at": number}, "obs_next": {"at": number + 1}, "act": number, "rew": 0.5, "info": info}
        buffer.add(Batch(row, terminated=False, truncated=False))
    table = {0: "first", 1: "second"}
    row = buffer[index]
    for one in (row.info, buffer.get(index, "info")):
        assert table[one.env_id] == "second"
        assert {one.parts.share: one.parts.name} == {0.5: "row 1"}
        assert one.parts.place.tolist() == [1, 1]
    assert table[row.obs.at] == table[buffer.get(index, "obs").at] == table[buffer.get(index, "act")] == "second"
    assert (type(row.act), type(row.rew)) == (np.ndarray, np.ndarray)  # as in Tianshou
    assert buffer[[index]].info.env_id.shape == np.shape([index])
    assert buffer.get([index], "act").shape == np.shape([index])
