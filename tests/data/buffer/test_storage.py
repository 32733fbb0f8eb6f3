"""Packed frames: the same answers as in RAM, in fewer bytes. The property tests run over all storages, too."""

import copy
import pickle

import numpy as np
import pytest

from rlfast.data import Batch, PrioritizedVectorReplayBuffer, ReplayBuffer, VectorReplayBuffer

PACKED = ("lz4", "zstd")
ENVS = 3


def game(steps, seed=0):
    """Frames ``[steps, 48, 40]`` of a square that moves over a fixed background of noise."""
    rng = np.random.default_rng(seed)
    frames = np.repeat(rng.integers(0, 4, (1, 48, 40), dtype=np.uint8) * 60, steps, axis=0)
    for step, frame in enumerate(frames):
        x, y = step % 44, step * 7 % 36
        frame[x : x + 4, y : y + 4] = 255
    return frames


def played(storage, *, stacks=True, steps=450, kind=VectorReplayBuffer, **options):
    """A buffer of ``ENVS`` games whose episodes end at different steps, and which has wrapped."""
    single = {} if stacks else {"stack_num": 4, "save_only_last_obs": True, "ignore_obs_next": True}
    buffer = kind(300 * ENVS, ENVS, storage=storage, seed=1, **(single | options))
    games = [game(steps + 5, seed) for seed in range(ENVS)]
    for step in range(steps):
        obs, obs_next = (np.stack([one[step + ahead : step + ahead + 4] for one in games]) for ahead in (0, 1))
        end = np.array([step % (20 + env) == 19 for env in range(ENVS)])
        row = Batch(
            obs=obs,
            act=np.full(ENVS, step),
            rew=np.arange(ENVS) + step,
            terminated=end & (step % 2 == 1),
            truncated=end & (step % 2 == 0),
        )
        row.obs_next = obs_next
        buffer.add(row, buffer_ids=np.arange(ENVS))
    return buffer


def same(one, other):
    for key in ("obs", "obs_next", "act", "rew", "terminated", "done"):
        assert np.array_equal(one[key], other[key]), key


@pytest.mark.parametrize("stacks", [True, False])
@pytest.mark.parametrize("storage", PACKED)
def test_packed_frames_take_a_fraction_and_give_the_same_samples(storage, stacks):
    plain, packed = played("ram", stacks=stacks), played(storage, stacks=stacks)
    assert packed.nbytes < plain.nbytes / 2
    for size in (1, 7, 200):
        (wanted, at), (found, index) = plain.sample(size), packed.sample(size)
        assert at.tolist() == index.tolist()
        same(wanted, found)
    same(plain[:], packed[:])
    assert np.array_equal(plain.obs, packed.obs)


@pytest.mark.parametrize("storage", PACKED)
def test_priorities_and_given_arrays_are_as_in_ram(storage):
    options = {"kind": PrioritizedVectorReplayBuffer, "alpha": 0.6, "beta": 0.4}
    plain, packed = (played(where, **options) for where in ("ram", storage))
    out = {}
    for buffer in (plain, packed):
        batch, index = buffer.sample(32)
        buffer.update_weight(index, np.linspace(0.1, 2.0, 32))
        out[buffer] = {
            key: np.ascontiguousarray(batch[key]) for key in ("obs", "obs_next", "act", "rew", "terminated", "done")
        }
    drawn = [buffer.sample(32, out=out[buffer])[1].tolist() for buffer in (plain, packed)]
    assert drawn[0] == drawn[1]
    same(out[plain], out[packed])


@pytest.mark.parametrize("storage", PACKED)
def test_copies_pack_their_frames_and_go_on_alike(storage):
    buffer = played(storage, stacks=False)
    for copied in (pickle.loads(pickle.dumps(buffer)), copy.deepcopy(buffer)):
        assert copied.nbytes < played("ram", stacks=False).nbytes / 2
        same(buffer[:], copied[:])


@pytest.mark.parametrize("stacks", [True, False])
@pytest.mark.parametrize(("first", "then"), [("ram", "lz4"), ("zstd", "ram"), ("lz4", "zstd"), ("lz4", "folder")])
def test_a_snapshot_opens_in_any_storage(first, then, stacks, tmp_path):
    buffer = played(first, stacks=stacks)
    buffer.save(tmp_path / "saved")
    storage = str(tmp_path / "rows") if then == "folder" else then
    again = VectorReplayBuffer.load(tmp_path / "saved", storage=storage)
    same(buffer[:], again[:])
    assert buffer.sample(50)[1].tolist() == again.sample(50)[1].tolist()
    assert (again.nbytes < played("ram", stacks=stacks).nbytes / 2) == (then in PACKED)
    assert again.unfinished_index().tolist() == buffer.unfinished_index().tolist()


def test_frames_that_repeat_for_long_are_recognised_after_they_were_packed():
    buffer = ReplayBuffer(500, storage="lz4", seed=0)
    still, rng = np.ones((4, 32, 32), np.uint8), np.random.default_rng(0)
    for _ in range(300):  # obs stays the frame of the first step, and every obs_next is new
        odd = rng.integers(0, 255, (4, 32, 32), dtype=np.uint8)
        buffer.add(Batch(obs=still, act=0, rew=0.0, terminated=False, truncated=False, obs_next=odd))
    assert (buffer[:].obs == 1).all()
    assert np.array_equal(buffer[299].obs_next, odd)
