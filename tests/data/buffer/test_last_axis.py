"""Stacks of frames along the last axis, as image wrappers give them: each frame is kept once."""

import pickle

import numpy as np
import pytest

from rlfast.data import Batch, PrioritizedVectorReplayBuffer, ReplayBuffer, VectorReplayBuffer
from rlfast.data.buffer import NStep

SHAPES = {"grey": (40, 30, 1, 4), "two": (40, 30, 1, 2), "five": (40, 30, 1, 5), "colour": (40, 30, 3, 4)}
"""Height, width, channels of a frame, and frames of a stack."""


def frames(kind, dtype=np.uint8, count=130):
    height, width, channels, _ = SHAPES[kind]
    return np.random.default_rng(3).integers(0, 200, (count, height, width, channels)).astype(dtype)


def stack(images, step, depth):
    return np.concatenate(list(images[step : step + depth]), -1)


def rows(kind, dtype=np.uint8, count=30, length=12):
    """Returns episodes of ``length`` rows; no episode begins with the last observation of another."""
    images, depth = frames(kind, dtype), SHAPES[kind][-1]
    for i in range(count):
        end = i % length == length - 1
        obs_next = (stack(images, i + 1, depth) + (i if end else 0)).astype(dtype)
        yield Batch(obs=stack(images, i, depth), act=i, rew=1.0, terminated=end, truncated=False, obs_next=obs_next)


def filled(buffer, kind, dtype=np.uint8, count=30):
    given = list(rows(kind, dtype, count))
    for row in given:
        buffer.add(row)
    return given


def same(batch, given, obs_next=True):
    for k, act in enumerate(batch.act.tolist()):
        np.testing.assert_array_equal(batch.obs[k], given[act].obs)
        if obs_next:
            np.testing.assert_array_equal(batch.obs_next[k], given[act].obs_next)


@pytest.mark.parametrize("ignore", [False, True])
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32])
@pytest.mark.parametrize("kind", SHAPES)
def test_each_frame_is_kept_once_and_comes_back_as_it_was(kind, dtype, ignore):
    count, depth, frame = 119, SHAPES[kind][-1], frames(kind, dtype)[0].nbytes
    buffer = ReplayBuffer(count, ignore_obs_next=ignore)
    given = filled(buffer, kind, dtype, count)
    ends = 2 * depth * 10  # where episodes begin and end, whole stacks are new
    assert buffer.nbytes < (count + ends + 32) * frame + (1 << 17)  # room is asked for in chunks
    everything = buffer[np.arange(count)]
    assert everything.obs.flags.c_contiguous
    same(everything[: count - 1], given)
    if ignore:  # a running episode ends with its own obs
        np.testing.assert_array_equal(everything.obs_next[-1], given[-1].obs)
    same(buffer.sample(64)[0], given, obs_next=not ignore)


def test_a_transition_costs_what_one_of_a_stack_along_the_first_axis_costs():
    sizes = []
    images = np.random.default_rng(0).integers(0, 255, (505, 84, 84), np.uint8)
    for axis in (0, -1):
        buffer = ReplayBuffer(500)
        for i in range(500):
            obs, obs_next = (np.stack(list(images[k : k + 4]), axis) for k in (i, i + 1))
            buffer.append(obs=obs, act=0, rew=0.0, terminated=False, truncated=False, obs_next=obs_next)
        sizes.append(buffer.nbytes / 500)
    assert sizes[1] == sizes[0] < 84 * 84 * 1.1


@pytest.mark.parametrize("ignore", [False, True])
@pytest.mark.parametrize("form", ["snapshot", "hdf5", "pickle"])
def test_files_give_the_same_rows(tmp_path, form, ignore):
    buffer = ReplayBuffer(20, ignore_obs_next=ignore)
    given = filled(buffer, "grey")
    if form == "pickle":
        loaded = pickle.loads(pickle.dumps(buffer))
    elif form == "hdf5":
        pytest.importorskip("h5py")
        buffer.save_hdf5(tmp_path / "rows")
        loaded = ReplayBuffer.load_hdf5(tmp_path / "rows")
    else:
        buffer.save(tmp_path / "rows")
        loaded = ReplayBuffer.load(tmp_path / "rows")
    assert loaded.nbytes < 1.2 * buffer.nbytes
    order = loaded.sample_indices(0)
    assert loaded[order].act.tolist() == list(range(10, 30))
    same(loaded[order[:-1]], given)
    assert loaded.obs.shape == (20, 40, 30, 4)
    np.testing.assert_array_equal(loaded.obs[order], buffer[order].obs)


def test_n_steps_stacks_and_vector_buffers():
    buffer = PrioritizedVectorReplayBuffer(60, 2, alpha=0.6, beta=0.4, unit=NStep(3, 0.9))
    given = list(rows("grey"))
    for row in given:
        buffer.add(Batch.stack([row, row]))
    batch, _ = buffer.sample(32)
    for k, act in enumerate(batch.act.tolist()):
        last = min(act + 2, act // 12 * 12 + 11, 29)
        np.testing.assert_array_equal(batch.obs[k], given[act].obs)
        np.testing.assert_array_equal(batch.obs_next[k], given[last].obs_next)
    deep = VectorReplayBuffer(60, 2, stack_num=3)
    for row in given:
        deep.add(Batch.stack([row, row]))
    obs = deep[np.array([5, 35])].obs
    np.testing.assert_array_equal(obs, np.stack([np.stack([given[i].obs for i in (3, 4, 5)])] * 2))


def test_an_array_that_is_not_contiguous_is_taken():
    buffer = ReplayBuffer(4)
    first = np.random.default_rng(0).integers(0, 255, (4, 40, 30), np.uint8)
    last = np.moveaxis(first, 0, -1)
    for _ in range(2):
        buffer.add(Batch(obs=last, act=0, rew=0.0, terminated=False, truncated=False, obs_next=last))
    np.testing.assert_array_equal(buffer[:].obs, np.stack([last] * 2))
    np.testing.assert_array_equal(buffer[:].obs_next, np.stack([last] * 2))
