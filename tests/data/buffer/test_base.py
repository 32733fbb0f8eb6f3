import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

from data.buffer.rows import everything, fill, row
from rlfast.data import (
    Batch,
    CachedReplayBuffer,
    HERReplayBuffer,
    NStep,
    PrioritizedReplayBuffer,
    ReplayBuffer,
    ReplayBufferManager,
    Sequence,
    VectorReplayBuffer,
)


# -- what an empty buffer says -----------------------------------------------------------------------------------------
def test_empty_buffer_returns_empty_results():
    """In Tianshou, sample(0) was a KeyError and unfinished_index() an AttributeError."""
    buffer = ReplayBuffer(5, seed=0)
    assert len(buffer) == 0
    assert buffer.unfinished_index().tolist() == []
    batch, indices = buffer.sample(0)
    assert (len(indices), indices.dtype, batch.rew.shape, batch.done.dtype) == (0, np.int64, (0,), np.bool_)
    assert buffer.sample(-1)[1].tolist() == buffer.sample(None)[1].tolist() == []
    assert buffer.update(ReplayBuffer(3)).tolist() == []
    assert buffer.update(buffer).tolist() == []
    with pytest.raises(ValueError, match="empty buffer"):
        buffer.sample(1)
    with pytest.raises(KeyError):
        buffer[0]
    with pytest.raises(AttributeError):
        buffer.obs
    assert repr(buffer) == "ReplayBuffer(0 of 5 rows)"
    assert np.array([buffer]).shape == (1,)  # NumPy must not take it for a sequence


def test_repr_is_short():
    buffer = ReplayBuffer(10**6)
    columns = {f"sensor{k}": np.zeros(3, np.float32) for k in range(100)}
    buffer.append(obs=columns, act=0, rew=0.0, terminated=False, truncated=False, obs_next=columns)
    assert repr(buffer).startswith("ReplayBuffer(1 of 1000000 rows, obs.sensor0: float32[3], ")
    assert repr(buffer).endswith(", obs.sensor19: float32[3], 184 more columns)")


# -- rows by index -----------------------------------------------------------------------------------------------------
def test_getitem_takes_every_kind_of_index():
    buffer = fill(ReplayBuffer(5), "..T....")  # slots hold 5 6 2 3 4
    assert buffer[3].obs == 3.0
    assert buffer[-1].obs == 4.0
    assert buffer[[0, 2]].obs.tolist() == [5, 2]
    assert buffer[np.array([[0, 1], [2, 3]])].act.tolist() == [[5, 6], [2, 3]]
    assert buffer[np.array([True, False, False, True, False])].obs.tolist() == [5, 3]
    assert buffer[:].obs.tolist() == [2, 3, 4, 5, 6]
    assert buffer[1:3].obs.tolist() == [6, 2]
    assert buffer[[]].obs.shape == (0,)
    assert buffer[np.array([1, 2], np.uint8)].obs.tolist() == [6, 2]
    for bad in (5, -6, [0, 5], 2.0, np.ones(3, bool)):
        with pytest.raises(IndexError):
            buffer[bad]


@pytest.mark.parametrize(
    "make",
    [
        lambda: ReplayBuffer(5),
        lambda: PrioritizedReplayBuffer(5, 0.6, 0.4),
        lambda: VectorReplayBuffer(10, 2).buffers[1],
    ],
)
def test_negative_int64_indices(make):
    buffer = fill(make(), "..T....")  # slots hold 5 6 2 3 4
    from_end, index = np.array([-1, 0, -5, -3]), np.array([4, 0, 0, 2])
    assert buffer[from_end].obs.tolist() == buffer[index].obs.tolist() == [4, 5, 5, 2]
    assert buffer.get(from_end, "act").tolist() == [4, 5, 5, 2]
    assert buffer.get(from_end, "act", stack_num=2).tolist() == buffer.get(index, "act", stack_num=2).tolist()
    for one, other in zip(buffer.nstep(from_end, 2, 0.5), buffer.nstep(index, 2, 0.5), strict=True):
        assert one.tolist() == other.tolist()
    assert buffer.nstep(from_end, 2, 0.5)[0].tolist() == [4 + 2.5, 5 + 3, 5 + 3, 2]
    for bad in (np.array([0, 5]), np.array([-6, 0])):
        for read in (buffer.__getitem__, lambda rows: buffer.get(rows, "obs"), lambda rows: buffer.nstep(rows, 2, 0.5)):
            with pytest.raises(IndexError, match=r"out of range for a buffer of 5 rows"):
                read(bad)


def test_batch_keys_are_in_order():
    buffer = fill(ReplayBuffer(5), ".")
    usual = ["obs", "act", "rew", "terminated", "truncated", "done", "obs_next", "info", "policy"]
    assert list(buffer.sample(1)[0].keys()) == usual
    buffer = ReplayBuffer(5)
    buffer.add(row(0, logp=0.5))
    assert list(buffer[0].keys()) == [*usual, "logp"]
    assert buffer[0].policy == Batch() or buffer[0].policy.is_empty()


def test_get_stacks_any_field():
    buffer = fill(ReplayBuffer(8), "..T..")
    assert buffer.get(4, "obs", stack_num=3).tolist() == [3, 3, 4]
    assert buffer.get([2, 3], "rew", stack_num=2).tolist() == [[1, 2], [3, 3]]
    assert buffer.get(1, "nothing", default_value=7) == 7
    with pytest.raises(KeyError, match="nothing"):
        buffer.get(1, "nothing")
    assert buffer.get(1, "info").is_empty()


def test_stack_num_may_be_changed():
    buffer = fill(ReplayBuffer(8, stack_num=4), "....")
    assert buffer[3].obs.tolist() == [0, 1, 2, 3]
    buffer.stack_num = 2
    assert buffer[3].obs.tolist() == [2, 3]
    assert buffer.sample(2)[0].obs.shape == (2, 2)
    with pytest.raises(AssertionError):
        buffer.stack_num = 0


def test_neighbours_of_one_row_and_of_many():
    buffer = fill(ReplayBuffer(5), "..T....")
    assert buffer.prev(0) == 4
    assert isinstance(buffer.next(2), np.int64)
    assert buffer.next([2, 3, 1]).tolist() == [2, 4, 1]
    assert buffer.next(np.array([[4]])).tolist() == [[0]]


def test_neighbours_where_no_row_is_yet():
    buffer = fill(ReplayBuffer(5), "T..")
    assert (buffer.prev(-1), buffer.next(-1)) == (buffer.prev(2), buffer.next(2)) == (1, 2)
    assert buffer.prev([3, 4]).tolist() == [0, 1]
    assert buffer.next([3, 4]).tolist() == [0, 2]
    with pytest.raises(IndexError):
        buffer.next(5)


# -- writing -----------------------------------------------------------------------------------------------------------
def test_add_returns_index_and_episode_statistics():
    buffer = ReplayBuffer(3)
    answers = [buffer.add(row(i, "T" if i in (1, 4) else "")) for i in range(5)]
    assert [[array.tolist() for array in answer] for answer in answers] == [
        [[0], [0.0], [0], [0]],
        [[1], [1.0], [2], [0]],
        [[2], [0.0], [0], [2]],
        [[0], [0.0], [0], [2]],
        [[1], [9.0], [3], [2]],
    ]


def test_add_with_a_leading_axis():
    buffer = ReplayBuffer(3)
    assert buffer.add(Batch.stack([row(7, obs=[1, 2])]), buffer_ids=[0])[0].tolist() == [0]
    assert buffer.add(row(8, obs=[3, 4]))[0].tolist() == [1]
    assert buffer[[0, 1]].obs.tolist() == [[1, 2], [3, 4]]
    with pytest.raises(ValueError, match="first axis"):
        buffer.add(Batch.stack([row(8, obs=[3, 4])] * 2), buffer_ids=[0])


def test_rewards_of_several_agents():
    buffer = ReplayBuffer(3)
    buffer.add(row(0, rew=np.array([1.0, 2.0])))
    _, ep_rew, ep_len, _ = buffer.add(row(1, "T", rew=np.array([10.0, 20.0])))
    assert (ep_rew.tolist(), ep_len.tolist()) == ([[11.0, 22.0]], [2])


def keywords(i, **more):
    """Returns the arguments of ``append`` for row ``i``."""
    return {key: value for key, value in row(i, **more).items() if key != "info"}


def test_append_converts_refuses_and_takes_objects_like_add():
    buffer = ReplayBuffer(6)
    for more in ({}, {"act": np.int16(1)}, {"act": np.array(2.0)}):
        buffer.append(**keywords(len(buffer), **more))
    with pytest.raises(TypeError, match="act"):
        buffer.append(**keywords(3, act=0.5))
    assert buffer.act.tolist() == [0, 1, 2, 0, 0, 0]
    assert len(buffer) == 3
    graph = Graph(3)
    buffer.add(row(3, info={"graph": graph}))
    buffer.append(**keywords(4))
    assert buffer.info.graph.tolist() == [None, None, None, graph, None, None]


@pytest.mark.parametrize("code", list("?bBhHiIlLqQefdg"))
def test_append_takes_numpy_scalars_of_any_kind(code):
    kind = np.dtype(code).type
    buffer = ReplayBuffer(5)
    numbers = [0, 1, 1] if code == "?" else [1, 2, 100]
    for i in numbers:
        row = {"obs": kind(i), "act": kind(1), "obs_next": kind(i)}
        buffer.append(**row, rew=np.float32(i / 2), terminated=np.bool_(i == 2), truncated=np.bool_(i == 100))
    assert (buffer.obs.dtype, buffer.obs[:3].tolist()) == (np.dtype(code), [kind(i) for i in numbers])
    assert buffer.act[:3].tolist() == [1, 1, 1]
    assert (buffer.rew.dtype, buffer.rew[:3].tolist()) == (np.float64, [i / 2 for i in numbers])
    assert buffer.terminated[:3].tolist() == [i == 2 for i in numbers]
    assert buffer.truncated[:3].tolist() == [i == 100 for i in numbers]


def test_append_after_column_was_replaced():
    buffer = fill(ReplayBuffer(4), "..")
    buffer._meta.rew = buffer.rew + 10
    buffer.append(**keywords(2))
    assert buffer.rew.tolist() == [10, 11, 2, 10]


@pytest.mark.parametrize("clone", [copy.copy, copy.deepcopy, lambda buffer: pickle.loads(pickle.dumps(buffer))])
def test_append_to_a_copy_goes_to_the_copy(clone):
    buffer = fill(ReplayBuffer(4), ".")
    twin = clone(buffer)
    assert twin.append(**keywords(1)) == 1
    assert len(twin) == 2
    assert len(buffer) == (2 if clone is copy.copy else 1)  # a shallow copy shares the rows


def test_append_to_a_loaded_buffer(tmp_path):
    buffer = fill(ReplayBuffer(4, stack_num=2), ".")
    buffer.save(tmp_path / "rows")
    loaded = ReplayBuffer.load(tmp_path / "rows")
    loaded.stack_num = 1
    assert loaded.append(**keywords(1)) == 1
    assert (len(loaded), len(buffer)) == (2, 1)


def test_append_to_a_buffer_that_comes_under_a_manager():
    buffers = [ReplayBuffer(3), ReplayBuffer(3)]
    manager = ReplayBufferManager(buffers)
    assert [buffers[1].append(**keywords(i)) for i in range(4)] == [0, 1, 2, 0]
    assert (len(manager), len(buffers[0]), manager.obs[3:].tolist()) == (3, 0, [3, 1, 2])
    only = ReplayBufferManager([ReplayBuffer(3)])
    assert only.buffers[0].append(**keywords(5)) == 0
    assert only.obs[0] == 5
    with pytest.raises(NotImplementedError):
        only.append(**keywords(6))


def test_append_calls_overridden_add_and_append():
    class Doubled(ReplayBuffer):
        def add(self, batch, buffer_ids=None):
            return super().add(Batch(batch, rew=2 * batch["rew"]), buffer_ids)

    class Counting(ReplayBuffer):
        def append(self, **fields):
            return super().append(**fields) + 100

    doubled, counting = Doubled(3), Counting(3)
    for i in range(3):
        doubled.append(**keywords(i))
        assert counting.append(**keywords(i)) == 100 + i
    assert doubled.rew.tolist() == [0, 2, 4]


def test_buffer_is_freed_without_garbage_collection():
    buffer = fill(ReplayBuffer(4), "..")
    gone = weakref.ref(buffer)
    gc.disable()
    try:
        del buffer
        assert gone() is None
    finally:
        gc.enable()


def test_late_keys_are_zero_in_other_rows():
    buffer = ReplayBuffer(4)
    buffer.add(row(0))
    buffer.add(row(1, logp=0.5, info={"lives": 3, "name": "x"}))
    buffer.add(row(2))
    assert buffer.logp.tolist() == [0, 0.5, 0, 0]
    assert buffer.info.lives.tolist() == [0, 3, 0, 0]
    assert buffer.info.name.tolist() == [None, "x", None, None]


class Subclass(np.ndarray):
    """A subclass of NumPy's array."""


def packed(array):
    """Returns an array whose values are not aligned."""
    fields = np.zeros(array.shape, [("before", np.uint8), ("value", array.dtype)])
    fields["value"] = array
    return fields["value"]


LAYOUTS = {
    "columns first": np.asfortranarray,
    "every other": lambda array: np.repeat(array, 2, axis=-1)[..., ::2],
    "backwards": lambda array: array[::-1].copy()[::-1],
    "broadcast": lambda array: np.broadcast_to(array[:1], array.shape),
    "packed": packed,
    "a subclass": lambda array: array.view(Subclass),
    "another byte order": lambda array: array.astype(array.dtype.newbyteorder()),
}


@pytest.mark.parametrize("key", ["obs", "act", "rew", "terminated", "obs_next"])
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_add_takes_any_memory_layout(layout, key):
    obs = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    fields = {"obs": obs, "act": np.arange(6).reshape(2, 3), "rew": np.array([1.0, 2.0]), "obs_next": obs + 1}
    fields |= {"terminated": np.zeros(2, bool), "truncated": np.zeros(2, bool)}
    given = {**fields, key: layout(fields[key])}
    buffer = VectorReplayBuffer(6, 2)
    buffer.add(Batch(given))
    buffer.add(Batch(given))
    buffer.buffers[0].append(**{name: value[0] for name, value in given.items()})
    buffer._meta[key] = layout(np.array(buffer._meta[key]))  # stored when the next rows come
    buffer.add(Batch(given))
    np.testing.assert_array_equal(buffer[[0, 3]][key], np.array(given[key]))
    np.testing.assert_array_equal(buffer[[1, 4]][key], np.array(given[key]))


def test_reserved_names_cannot_be_assigned():
    buffer = fill(ReplayBuffer(3), ".")
    for key in ReplayBuffer._reserved_keys:
        with pytest.raises(AssertionError, match=key):
            setattr(buffer, key, 1)


# -- objects -----------------------------------------------------------------------------------------------------------
class Graph:
    def __init__(self, nodes):
        self.nodes = nodes


def test_object_columns_keep_identity():
    graphs = [Graph(i) for i in range(4)]
    buffer = ReplayBuffer(3, stack_num=2)
    for i in range(4):
        info = {"env": graphs[i], "label": f"row {i}", "none": None}
        buffer.add(row(i, obs=graphs[i], obs_next=graphs[(i + 1) % 4], info=info))
    assert buffer.info.env.tolist() == [graphs[3], graphs[1], graphs[2]]
    assert buffer[0].obs.tolist() == [graphs[2], graphs[3]]
    assert buffer[0].obs_next.tolist() == [graphs[3], graphs[0]]
    batch, indices = buffer.sample(20)
    assert all(batch.info.label[k][-1] == f"row {[3, 1, 2][i]}" for k, i in enumerate(indices))
    other = ReplayBuffer(5)
    other.update(buffer)
    assert [graph.nodes for graph in other.obs[:3]] == [1, 2, 3]
    buffer.reset()
    assert buffer.info.env.tolist() == [None] * 3


@pytest.mark.parametrize("value", [None, "left", {"set"}, [1, 2]], ids=str)
def test_single_row_returns_its_objects(value):
    kept = np.empty(1, object)
    kept[0] = value
    buffer = VectorReplayBuffer(6, 2)
    for i in range(2):
        one = Batch.stack([row(i)])
        one.info = Batch(kept=kept)
        buffer.add(one, buffer_ids=[0])
    assert buffer[0].info.kept is value
    assert buffer.get(np.array(1), "info").kept is value
    assert buffer[[1]].info.kept.shape == (1,)
    assert buffer[[1]].info.kept[0] is value


# -- whole columns -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["objects", "numbers", "objects after numbers", "assigned"])
def test_stacks_of_next_observations_are_alike_for_numbers_and_objects(kind):
    """Rows keep the obs_next they came with; before an episode's oldest row its obs repeats."""
    buffer = ReplayBuffer(5, stack_num=3)
    obs, obs_next = [f"o{i}" for i in range(7)], [f"n{i}" for i in range(7)]
    if kind != "objects":
        obs = [float(i) for i in range(7)]
    if kind in ("numbers", "assigned"):
        obs_next = [100.0 + i for i in range(7)]
    for i in range(7):
        buffer.add(row(i, "T" if i == 3 else "", obs=obs[i], obs_next=obs_next[i]))
    if kind == "assigned":
        buffer._meta.obs_next = np.array(buffer.obs_next)
    o, n = obs.__getitem__, obs_next.__getitem__
    wanted = [[o(2), o(2), n(2)], [o(2), n(2), n(3)], [o(4), o(4), n(4)], [o(4), n(4), n(5)], [n(4), n(5), n(6)]]
    rows = buffer.sample_indices(0)
    assert buffer[rows].obs_next.tolist() == wanted
    assert buffer.get(rows, "obs_next").tolist() == wanted
    assert buffer[rows[3]].obs_next.tolist() == wanted[3]


def test_a_column_may_be_added_through_meta():
    """As CQL does: the column must come with later samples, and be zero in later rows."""
    buffer = fill(ReplayBuffer(4), "...")
    buffer._meta = Batch(**buffer._meta.__dict__, calibration_returns=np.arange(4.0))
    assert buffer._store.plain
    batch, indices = buffer.sample(10)
    assert batch.calibration_returns.tolist() == indices.tolist()
    fill(buffer, "..", start=3)
    assert buffer.calibration_returns.tolist() == [0, 1, 2, 0]


def test_rewards_may_be_replaced_for_a_while():
    """As multi-agent policies do, one agent after the other."""
    buffer = ReplayBuffer(6)
    for i, end in enumerate([".", ".", "T", ".", "."]):
        buffer.add(row(i, end.strip("."), rew=np.array([i, 10.0 * i])))
    stored = buffer.rew.copy()
    saved, buffer._meta.rew = buffer.rew, Batch()
    assert buffer.sample(3)[0].rew.is_empty()
    for agent in range(2):
        buffer._meta.rew = saved[:, agent]
        assert buffer[[2, 1]].rew.tolist() == [saved[2, agent], saved[1, agent]]
        reward_sum, discount, last = buffer.nstep(np.array([0, 3, 4]), 2, 0.5)
        assert reward_sum.tolist() == [
            saved[0, agent] + saved[1, agent] / 2,
            saved[3, agent] + saved[4, agent] / 2,
            saved[4, agent],
        ]
        assert (discount.tolist(), last.tolist()) == ([0.25, 0.25, 0.5], [1, 4, 4])
        with pytest.raises(ValueError, match="rew"):
            buffer.add(row(9, rew=np.array([1.0, 2.0])))
    buffer._meta.rew = saved
    assert buffer._store.plain
    assert np.array_equal(buffer.rew, stored)
    buffer.add(row(9, rew=np.array([1.0, 2.0])))


@pytest.mark.parametrize("key", ["rew", "obs"])
def test_a_replaced_column_becomes_the_stored_one_when_rows_come(key):
    buffer = fill(ReplayBuffer(4), "..T.")
    setattr(buffer._meta, key, np.array([5.0, 6, 7, 8]))
    fill(buffer, ".", start=9)
    assert getattr(buffer, key).tolist() == [9, 6, 7, 8]
    assert buffer.done.tolist() == [False, False, True, False]
    assert buffer._store.plain


def test_a_column_of_another_length_is_refused():
    buffer = fill(ReplayBuffer(4), "..")
    with pytest.raises(ValueError, match="4"):
        buffer._meta.extra = np.zeros(3)


def test_set_batch_installs_a_storage():
    buffer = fill(ReplayBuffer(3), "...")
    stored = Batch(buffer._meta.__dict__)
    other = fill(ReplayBuffer(3), "TTT", start=50)
    other.set_batch(stored)
    assert other[:].obs.tolist() == [0, 1, 2]
    with pytest.raises(AssertionError):
        other.set_batch(Batch(obs=np.zeros(4)))
    with pytest.raises(AssertionError):
        other.set_batch(Batch(**{**stored.__dict__, "strange": np.zeros(3)}))


# -- moving, copying ---------------------------------------------------------------------------------------------------


def test_update_between_buffers_that_store_differently():
    source = fill(ReplayBuffer(4, ignore_obs_next=True), "..T.")
    target = ReplayBuffer(4)
    target.update(source)
    assert target[:].obs_next.tolist() == [1, 2, 3, 3]
    back = ReplayBuffer(4, ignore_obs_next=True)
    back.update(target)
    assert "obs_next" not in back._meta


@pytest.mark.parametrize("ignore_obs_next", [False, True])
def test_running_episodes_of_a_vector_buffer_are_not_joined(ignore_obs_next):
    source, target = VectorReplayBuffer(8, 2), ReplayBuffer(8, ignore_obs_next=ignore_obs_next, stack_num=2)
    for i in range(4):
        obs, flags = np.array([i, 100 + i]), np.zeros(2, bool)
        fields = {"obs": obs, "act": flags, "rew": obs, "truncated": flags, "obs_next": obs + 1}
        source.add(Batch(**fields, terminated=np.array([i == 1, False])))
    target.update(source)
    assert target.terminated.nonzero()[0].tolist() == [1]
    assert target.truncated.nonzero()[0].tolist() == [3]  # the episode of the second environment is still running
    assert target[[3, 4]].obs_next.tolist() == [[3, 4], [100, 101]]
    assert target[[4]].obs.tolist() == [[100, 100]]
    assert target.done.tolist() == [False, True, False, True, *4 * [False]]


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda buffer: pickle.loads(pickle.dumps(buffer))])
def test_copies_are_equal_and_independent(clone):
    buffer = PrioritizedReplayBuffer(5, 0.6, 0.4, stack_num=2, seed=3)
    for i, end in enumerate("..T..."):
        buffer.add(row(i, end.strip("."), info={"name": f"row {i}"}))
    other = clone(buffer)
    assert type(other) is PrioritizedReplayBuffer
    assert everything(other) == everything(buffer)
    assert other.info.name.tolist() == buffer.info.name.tolist()
    for _ in range(20):
        assert other.sample_indices(7).tolist() == buffer.sample_indices(7).tolist()
    other.add(row(9, info={"name": "other"}))
    assert 9.0 not in buffer.obs.tolist()


def test_storage_in_files(tmp_path):
    in_files, in_ram = (
        fill(ReplayBuffer(5, storage=storage), "..T....") for storage in (str(tmp_path / "rows"), "ram")
    )
    assert everything(in_files) == everything(in_ram)
    assert (tmp_path / "rows").is_dir()  # the files have no names: they go when the buffer does
    assert everything(copy.deepcopy(in_files)) == everything(in_ram)


def test_sample_calls_overridden_sample_indices_and_getitem():
    class Newest(ReplayBuffer):
        def sample_indices(self, batch_size):
            return np.repeat(self.last_index, batch_size)

    class Negated(ReplayBuffer):
        def __getitem__(self, index):
            batch = super().__getitem__(index)
            batch.rew = -batch.rew
            return batch

    assert fill(Newest(9), "....").sample(3)[0].obs.tolist() == [3, 3, 3]
    assert (fill(Negated(9), "....", start=1).sample(3)[0].rew < 0).all()


def test_the_global_generator_repeats_a_run():
    def run(seed=None):
        return fill(ReplayBuffer(50, seed=seed), "." * 50).sample_indices(100).tolist()

    np.random.seed(7)
    first = run()
    np.random.seed(7)
    assert run() == first
    assert run(1) == run(1) != run(2)


def test_options_build_the_same_buffer_again():
    buffer = ReplayBuffer(3, stack_num=2, ignore_obs_next=True)
    assert ReplayBuffer(5, **buffer.options).options == buffer.options
    prioritized = PrioritizedReplayBuffer(3, 0.6, 0.4, weight_norm=False)
    assert PrioritizedReplayBuffer(5, **prioritized.options)._weight_norm is False
    hindsight = HERReplayBuffer(3, np.equal, 5)
    assert ReplayBuffer(5, **hindsight.options)._config == hindsight._config


@pytest.mark.parametrize("whole", [5.0, np.float32(5), np.int16(5), np.array(5)])
def test_sizes_may_be_whole_floats(whole):
    buffer = ReplayBuffer(whole, stack_num=whole, seed=0)
    assert (buffer.maxsize, buffer.stack_num, buffer.options["stack_num"]) == (5, 5, 5)
    assert VectorReplayBuffer(whole * 2, whole).buffers[4].maxsize == 2
    assert CachedReplayBuffer(ReplayBuffer(5), whole, whole).maxsize == 30
    assert ReplayBuffer(5, unit=NStep(whole, 0.9)).options["unit"] == NStep(5, 0.9)


@pytest.mark.parametrize("size", [np.nan, np.inf, "5", None, [5]])
def test_other_sizes_are_refused(size):
    makers = [
        ReplayBuffer,
        lambda n: ReplayBuffer(5, stack_num=n),
        lambda n: VectorReplayBuffer(n, 2),
        lambda n: VectorReplayBuffer(10, n),
        lambda n: CachedReplayBuffer(ReplayBuffer(5), n, 4),
        lambda n: CachedReplayBuffer(ReplayBuffer(5), 2, n),
        lambda n: NStep(n, 0.9),
        lambda n: Sequence(n),
    ]
    for make in makers:
        with pytest.raises(TypeError, match="must be an integer, got"):
            make(size)
