"""Buffers in files with correct checksums and wrong contents raise the documented error, which names the file."""

import json
import pickle
import random
import struct

import numpy as np
import pytest

from data.buffer.rows import fill, row, rows
from faults.json_tree import variants
from faults.test_hostile import joined, sections
from rlfast.data import HERReplayBuffer, PrioritizedVectorReplayBuffer, ReplayBuffer, VectorReplayBuffer
from rlfast.data.buffer import NStep, Sequence

JUNK = [None, True, -1, 0, 2**31, 2**62, 0.5, np.nan, np.inf, "", "x" * 40, np.zeros(0), np.full(40, 2**62), b"\x80"]


def reward(achieved, desired):
    return -(achieved != desired).any(-1).astype(float)


def hindsight():
    buffer = HERReplayBuffer(8, reward, horizon=4, future_k=4, seed=0)
    for i in range(6):
        obs, obs_next = (
            {"observation": np.ones(2), "achieved_goal": np.full(2, j), "desired_goal": np.zeros(2)} for j in (i, i + 1)
        )
        buffer.append(obs=obs, act=0, rew=0.0, terminated=i == 3, truncated=False, obs_next=obs_next)
    return buffer


def prioritized():
    buffer = PrioritizedVectorReplayBuffer(10, 2, alpha=0.6, beta=0.4, seed=0)
    for i in range(7):
        buffer.add(rows(i, 2, "T " if i == 2 else ""))
    buffer.update_weight(np.arange(4), np.arange(1.0, 5.0))
    return buffer


MAKE = {
    "plain": lambda: fill(ReplayBuffer(5, stack_num=2, seed=0), "..T...."),
    "n-step": lambda: fill(ReplayBuffer(5, unit=NStep(3, 0.9), seed=0), "..T...."),
    "sequence": lambda: fill(ReplayBuffer(5, unit=Sequence(3, 1), seed=0), "..T...."),
    "vector": lambda: fill_vector(VectorReplayBuffer(10, 2, seed=0)),
    "prioritized": prioritized,
    "hindsight": hindsight,
}


def fill_vector(buffer):
    for i in range(7):
        buffer.add(rows(i, 2, "T " if i == 2 else ""))
    return buffer


def use(buffer):
    """Uses a buffer that was loaded: every method works or raises an error, and none ends the process."""
    if max(getattr(buffer._config.unit, name, 0) for name in ("length", "burn_in")) > 10**6:
        return
    try:
        buffer.sample(4)
        buffer.sample_indices(0)
        buffer[np.arange(len(buffer))]
        buffer.prev(np.arange(2)), buffer.next(np.arange(2))
        if not hasattr(buffer, "buffers") and not isinstance(buffer, HERReplayBuffer):
            buffer.add(row(3, "T"))
        buffer.reset()
    except (ValueError, TypeError, MemoryError, IndexError, KeyError):
        pass


@pytest.mark.pitfall("D7")
@pytest.mark.parametrize("kind", MAKE)
def test_what_a_snapshot_says_of_its_buffer(tmp_path, kind):
    path = tmp_path / "rows.snapshot"
    MAKE[kind]().save(path)
    whole = path.read_bytes()
    mark, parts = whole[:8], sections(whole)
    place = next(i for i, (_, data) in enumerate(parts) if b'"format"' in data)
    tag, data = parts[place]
    start = data.index(b'{"format"')
    head, _, payload = data[start:].partition(b"\n")
    refused = 0
    for text in variants(json.loads(head), 150, seed=1):
        extra = text.encode() + b"\n" + payload
        before = data[:start]
        if len(before) >= 8 and struct.unpack("<Q", before[-8:])[0] == len(data) - start:
            before = before[:-8] + struct.pack("<Q", len(extra))  # its own length stands before it
        path.write_bytes(joined(mark, [*parts[:place], (tag, before + extra), *parts[place + 1 :]]))
        try:
            buffer = ReplayBuffer.load(path, compute_reward_fn=reward)
        except (ValueError, MemoryError) as error:
            assert isinstance(error, MemoryError) or str(path) in str(error), error  # noqa: PT017
            refused += 1
        else:
            use(buffer)
    assert 50 < refused < 150


@pytest.mark.parametrize("end", [0, 7, 8, 30, -40, -1])
def test_a_cut_snapshot_is_named(tmp_path, end):
    path = tmp_path / "rows.snapshot"
    MAKE["vector"]().save(path)
    path.write_bytes(path.read_bytes()[:end])
    with pytest.raises(ValueError, match=r"rows\.snapshot"):
        ReplayBuffer.load(path)


def harm(chance, file):
    """Changes one attribute or dataset of an HDF5 file."""
    h5py = pytest.importorskip("h5py")
    found = [file]
    file.visititems(lambda _, item: found.append(item))
    item = chance.choice(found)
    value = chance.choice(JUNK)
    if isinstance(item, h5py.Dataset) and chance.random() < 0.7:
        name, kind, owner = item.name, item.attrs["__data_type__"], item.parent
        shape, dtype = item.shape, item.dtype
        del file[name]
        choice = chance.randrange(6)
        data = [
            np.zeros(shape, "f8"),
            np.zeros((3, *shape[1:]), dtype),
            np.full(shape, np.nan),
            np.frombuffer(pickle.dumps(value, 4), np.byte),
            np.array(2**62),
        ]
        if choice < len(data):
            owner.create_dataset(name.rpartition("/")[2], data=data[choice]).attrs["__data_type__"] = kind
    elif item.attrs and value is not None:
        key = chance.choice([*item.attrs])
        if chance.random() < 0.2:
            del item.attrs[key]
        else:
            item.attrs[key] = value


@pytest.mark.pitfall("D7")
@pytest.mark.filterwarnings("ignore:.* is a flag, but came as a number", "ignore:.* it is repeated to fill that")
@pytest.mark.parametrize("kind", [kind for kind in MAKE if kind not in ("n-step", "sequence", "hindsight")])
def test_changed_hdf5(tmp_path, kind):
    h5py = pytest.importorskip("h5py")
    whole, path, chance, refused = MAKE[kind](), tmp_path / "rows.hdf5", random.Random(3), 0
    whole.save_hdf5(tmp_path / "whole.hdf5")
    for _ in range(150):
        path.write_bytes((tmp_path / "whole.hdf5").read_bytes())
        with h5py.File(path, "r+") as file:
            harm(chance, file)
        try:
            buffer = type(whole).load_hdf5(path, seed=0)
        except pickle.UnpicklingError:
            refused += 1
        except (ValueError, MemoryError) as error:
            assert isinstance(error, MemoryError) or str(path) in str(error), error  # noqa: PT017
            refused += 1
        else:
            use(buffer)
    assert 20 < refused < 150


def test_every_row_relabelled_comes_back_from_hdf5(tmp_path):
    """A probability of one has no finite number of relabelled rows for each untouched one."""
    buffer = HERReplayBuffer(8, reward, horizon=4, future_k=float("inf"), seed=0)
    buffer.save_hdf5(tmp_path / "rows.hdf5")
    assert HERReplayBuffer.load_hdf5(tmp_path / "rows.hdf5", allow_pickle=True)._config.relabel.future_k == float("inf")
