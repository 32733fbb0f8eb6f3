import json
import os
import pickle

import numpy as np
import pytest

from data.buffer.rows import everything, fill, row, rows
from rlfast.data import (
    Batch,
    CachedReplayBuffer,
    HERReplayBuffer,
    PrioritizedReplayBuffer,
    PrioritizedVectorReplayBuffer,
    ReplayBuffer,
    ReplayBufferManager,
    VectorReplayBuffer,
)
from rlfast.data.buffer import NStep, Sequence

h5py = pytest.importorskip("h5py")


def vector(kind, *arguments, **options):
    buffer = kind(*arguments, seed=0, **options)
    for i in range(7):
        buffer.add(rows(i, 2, "T " if i == 2 else " t" if i == 4 else ""))
    return buffer


def prioritized(buffer):
    _, indices = buffer.sample(20)
    buffer.update_weight(indices, np.linspace(0, 3, 20))
    return buffer


MAKE = {
    "plain": lambda: fill(ReplayBuffer(5, stack_num=2, seed=0), "..T...."),
    "empty": lambda: ReplayBuffer(5, seed=0),
    "saving memory": lambda: fill(ReplayBuffer(5, ignore_obs_next=True, sample_avail=True, seed=0), "..T...."),
    "n-step": lambda: fill(ReplayBuffer(5, unit=NStep(3, 0.9), seed=0), "..T...."),
    "sequence": lambda: fill(ReplayBuffer(5, unit=Sequence(3, 1), seed=0), "..T...."),
    "prioritized": lambda: prioritized(
        fill(PrioritizedReplayBuffer(5, 0.6, 0.4, weight_norm=False, seed=0), "..T....")
    ),
    "vector": lambda: vector(VectorReplayBuffer, 10, 2),
    "manager": lambda: vector(ReplayBufferManager, [ReplayBuffer(3), ReplayBuffer(6)]),
    "prioritized vector": lambda: prioritized(vector(PrioritizedVectorReplayBuffer, 10, 2, alpha=0.6, beta=0.4)),
    "cached": lambda: vector(CachedReplayBuffer, ReplayBuffer(6), 2, 5),
}


def same_future(one, other):
    """Asserts that two buffers draw and add the same rows from now on. Both are changed."""
    assert type(one) is type(other)
    assert everything(one) == everything(other)
    for _ in range(10):
        if len(one):
            (a, i), (b, j) = one.sample(8), other.sample(8)
            assert i.tolist() == j.tolist()
            assert a.rew.tolist() == b.rew.tolist()
        fields = row(3, "T") if not hasattr(one, "buffers") else rows(3, 2, "T ")
        ids = None if not hasattr(one, "buffers") else [0, 1]
        first, second = one.add(fields, buffer_ids=ids), other.add(fields, buffer_ids=ids)
        assert [array.tolist() for array in first] == [array.tolist() for array in second]


@pytest.mark.parametrize("kind", MAKE)
def test_a_snapshot_goes_on_as_the_buffer_would_have(tmp_path, kind):
    buffer = MAKE[kind]()
    buffer.save(tmp_path / "rows")
    for cls in (ReplayBuffer, type(buffer)):
        loaded = cls.load(tmp_path / "rows")
        assert loaded.options == buffer.options
        same_future(loaded, MAKE[kind]())


def test_what_was_changed_since_the_beginning_is_saved(tmp_path):
    buffer = MAKE["prioritized"]()
    buffer.stack_num, buffer._weight_norm = 3, True
    buffer.set_beta(0.9)
    buffer._meta.extra = np.arange(5.0)
    buffer.save(tmp_path / "rows")
    loaded = ReplayBuffer.load(tmp_path / "rows")
    assert (loaded.stack_num, loaded._weight_norm, loaded._beta) == (3, True, 0.9)
    assert loaded.extra.tolist() == buffer.extra.tolist()


def test_a_snapshot_may_be_opened_into_files(tmp_path):
    MAKE["plain"]().save(tmp_path / "rows")
    loaded = ReplayBuffer.load(tmp_path / "rows", storage=str(tmp_path / "columns"))
    assert everything(loaded) == everything(MAKE["plain"]())


def test_a_class_takes_its_own_files_only(tmp_path):
    MAKE["plain"]().save(tmp_path / "rows")
    with pytest.raises(ValueError, match="not a VectorReplayBuffer"):
        VectorReplayBuffer.load(tmp_path / "rows")

    class Mine(ReplayBuffer):
        pass

    fill(Mine(3), "..").save(tmp_path / "mine")
    assert type(ReplayBuffer.load(tmp_path / "mine")) is Mine


def test_a_part_of_a_manager_is_not_saved_alone(tmp_path):
    with pytest.raises(ValueError, match="manager"):
        MAKE["vector"]().buffers[0].save(tmp_path / "rows")


def test_objects_are_pickled_only_when_both_sides_allow_it(tmp_path):
    buffer = ReplayBuffer(3)
    buffer.add(row(0, info={"name": slice(1)}))
    with pytest.raises(TypeError, match=r"info\.name"):
        buffer.save(tmp_path / "rows")
    assert not (tmp_path / "rows").exists()
    buffer.save(tmp_path / "rows", allow_pickle=True)
    with pytest.raises(ValueError, match="allow_pickle"):
        ReplayBuffer.load(tmp_path / "rows")
    assert ReplayBuffer.load(tmp_path / "rows", allow_pickle=True).info.name.tolist() == [slice(1), None, None]


def reward(achieved, desired):
    return np.zeros(len(achieved))


def test_a_reward_function_is_given_again_or_pickled(tmp_path):
    buffer = HERReplayBuffer(5, reward, 5, 4)
    goal = {"observation": 1.0, "achieved_goal": [1.0], "desired_goal": [2.0]}
    buffer.add(row(0, obs=goal, obs_next=goal))
    buffer.save(tmp_path / "rows")
    with pytest.raises(TypeError, match="compute_reward_fn"):
        HERReplayBuffer.load(tmp_path / "rows")
    loaded = HERReplayBuffer.load(tmp_path / "rows", compute_reward_fn=reward)
    assert (loaded.horizon, loaded.future_p) == (5, 0.75)
    buffer.save(tmp_path / "rows", allow_pickle=True)
    assert HERReplayBuffer.load(tmp_path / "rows", allow_pickle=True).compute_reward_fn is reward


def test_a_damaged_or_foreign_file_is_refused(tmp_path):
    path = tmp_path / "rows"
    MAKE["plain"]().save(path)
    whole = path.read_bytes()
    for damaged in (
        whole[:-7],
        whole[: len(whole) // 2],
        b"",
        b"not a snapshot",
        pickle.dumps({}),
        whole[:40] + b"x" + whole[41:],
    ):
        path.write_bytes(damaged)
        with pytest.raises(ValueError):
            ReplayBuffer.load(path)
    with pytest.raises(FileNotFoundError):
        ReplayBuffer.load(tmp_path / "nowhere")
    MAKE["plain"]()._core.save(str(path), b"{}\n")
    with pytest.raises(ValueError, match="not of a replay buffer"):
        ReplayBuffer.load(path)
    for head in (
        {"format": 1},
        {"format": 1, "class": 3},
        {"format": 1, "class": "rlfast.data.buffer.base.ReplayBuffer"},
    ):
        MAKE["plain"]()._core.save(str(path), json.dumps(head).encode() + b"\n")
        with pytest.raises(ValueError):
            ReplayBuffer.load(path)
    MAKE["plain"]()._core.save(str(path), json.dumps({"format": 99}).encode() + b"\n")
    with pytest.raises(ValueError, match="99"):
        ReplayBuffer.load(path)


HDF5 = [kind for kind in MAKE if kind not in ("n-step", "sequence")]


@pytest.mark.parametrize("kind", HDF5)
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_hdf5_gives_the_same_buffer(tmp_path, kind, compression):
    buffer = MAKE[kind]()
    buffer.save_hdf5(tmp_path / "rows.hdf5", compression=compression)
    loaded = type(buffer).load_hdf5(tmp_path / "rows.hdf5", seed=5)
    assert everything(loaded) == everything(buffer)
    assert loaded.options == buffer.options
    if buffer._core.prioritized:
        indices = buffer.sample_indices(0)
        assert np.allclose(loaded.weight[indices], buffer.weight[indices])
        assert np.allclose(loaded[indices].weight, buffer[indices].weight)
    fields = row(9, "T") if not hasattr(buffer, "buffers") else rows(9, 2, "TT")
    ids = None if not hasattr(buffer, "buffers") else [0, 1]
    answers = [[array.tolist() for array in one.add(fields, buffer_ids=ids)] for one in (buffer, loaded)]
    assert answers[0] == answers[1]


def test_hdf5_of_another_class_is_refused(tmp_path):
    MAKE["vector"]().save_hdf5(tmp_path / "vector.hdf5")
    MAKE["plain"]().save_hdf5(tmp_path / "plain.hdf5")
    for cls, name in [(ReplayBuffer, "vector"), (VectorReplayBuffer, "plain"), (PrioritizedReplayBuffer, "plain")]:
        with pytest.raises(ValueError, match=cls.__name__):
            cls.load_hdf5(tmp_path / f"{name}.hdf5")
    with h5py.File(tmp_path / "other.hdf5", "w") as file:
        file.attrs["x"] = 1
    with pytest.raises(ValueError, match="does not hold a replay buffer"):
        ReplayBuffer.load_hdf5(tmp_path / "other.hdf5")


def test_hdf5_has_no_place_for_units(tmp_path):
    with pytest.raises(ValueError, match="unit"):
        MAKE["n-step"]().save_hdf5(tmp_path / "rows.hdf5")


def test_hdf5_runs_no_code_from_the_file(tmp_path):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    buffer = ReplayBuffer(3)
    buffer.add(row(0, info={"env": "x"}))
    buffer.save_hdf5(tmp_path / "rows.hdf5")
    with h5py.File(tmp_path / "rows.hdf5", "a") as file:
        info = file["_meta/info"]
        del info["env"]
        info.create_dataset("env", data=np.frombuffer(pickle.dumps(Trap()), np.byte))
        info["env"].attrs["__data_type__"] = "pickled_ndarray"
    with pytest.raises(pickle.UnpicklingError):
        ReplayBuffer.load_hdf5(tmp_path / "rows.hdf5")
    assert not (tmp_path / "sprung").exists()


def test_a_failed_save_leaves_the_file_before_it(tmp_path):
    path = tmp_path / "rows.hdf5"
    MAKE["plain"]().save_hdf5(path)
    before = path.read_bytes()
    buffer = ReplayBuffer(3)
    buffer.add(row(0, info={"env": lambda: None}))
    with pytest.raises(RuntimeError):
        buffer.save_hdf5(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_from_data_makes_a_full_buffer(tmp_path):
    names = ("obs", "act", "rew", "terminated", "truncated", "done", "obs_next")
    with h5py.File(tmp_path / "rows.hdf5", "w") as file:
        for name in names:
            flag = name in ("terminated", "truncated", "done")
            file[name] = np.arange(6) == 2 if flag else np.arange(6.0) + (name == "obs_next")
        buffer = ReplayBuffer.from_data(*(file[name] for name in names))
    assert (len(buffer), buffer.maxsize) == (6, 6)
    assert buffer.next([0, 2, 4, 5]).tolist() == [1, 2, 5, 5]
    assert buffer[:].obs_next.tolist() == [1, 2, 3, 4, 5, 6]
    with pytest.raises(AssertionError):
        ReplayBuffer.from_data(*([np.zeros(2)] * 6), np.zeros(3))
    assert len(ReplayBuffer.from_data(*([np.zeros(0)] * 7))) == 0


def test_pickles_keep_a_manager_and_its_parts_together():
    buffer = MAKE["cached"]()
    loaded = pickle.loads(pickle.dumps(buffer))
    assert loaded.main_buffer is loaded.buffers[0]
    same_future(loaded, buffer)
    assert isinstance(loaded._meta, Batch)
