"""A shared buffer in one process: the batches of a vector buffer with the same rows."""

import copy
import os
import socket
from pathlib import Path

import numpy as np
import pytest
import torch

from data.buffer.shared.rows import check_whole, row, rows
from rlfast.data import (
    Batch,
    FrameStack,
    NStep,
    Prioritized,
    SharedReplayBuffer,
    Transition,
    Uniform,
    VectorReplayBuffer,
)


def equal(one: Batch, other: Batch) -> None:
    assert set(one.keys()) == set(other.keys())
    for key in one.keys():  # noqa: SIM118 (a batch iterates over its rows)
        first, second = one[key], other[key]
        if isinstance(first, Batch):
            equal(first, second)
        else:
            assert first.dtype == second.dtype, key
            np.testing.assert_array_equal(first, second, err_msg=key)


OPTIONS = [
    {},
    {"stack_num": 3},
    {"unit": FrameStack(2)},
    {"unit": NStep(3, 0.9)},
    {"unit": NStep(5, 0.5), "stack_num": 2},
    {"sampler": Prioritized(0.6, 0.4)},
    {"sampler": Prioritized(0.7, 0.5, weight_norm=False), "unit": NStep(2, 0.99), "stack_num": 4},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("capacity", [1, 2, 7])
def test_samples_are_those_of_a_vector_buffer(options, capacity):
    rng = np.random.default_rng(capacity)
    shared = SharedReplayBuffer(3 * capacity, 3, row(0), seed=5, **options)
    vector = VectorReplayBuffer(3 * capacity, 3, seed=5, **options)
    writer = shared.writer()
    for step in range(60):
        ids = rng.permutation(3)[: rng.integers(1, 4)]
        kinds = {"terminated": step % 5 == 0, "truncated": step % 7 == 0}
        batch = rows(rng.integers(0, 99, len(ids)).tolist(), ids.tolist(), **kinds)
        for mine, theirs in zip(writer.add(batch, ids), vector.add(batch, ids), strict=True):
            np.testing.assert_array_equal(mine, theirs)
        if step % 11 == 0:
            writer.close_episodes(ids[:1])
            vector.close_episodes(ids[:1])
        assert len(shared) == len(vector)
        (mine, here), (theirs, there) = shared.sample(16), vector.sample(16)
        np.testing.assert_array_equal(here, there)
        equal(mine, theirs)
        np.testing.assert_array_equal(shared.sample_indices(0), vector.sample_indices(0))
        if "sampler" in options:
            error = rng.random(16)
            shared.update_weight(here, torch.as_tensor(error))
            vector.update_weight(there, error)
    everything, indices = shared.sample(0)
    equal(everything, vector.sample(0)[0])
    equal(shared[indices], everything)
    first = shared[int(indices[0])]
    if "sampler" in options:
        assert first.weight == (1.0 if options["sampler"].weight_norm else everything.weight[0])
        first.weight = everything.weight[0]  # divided by the largest of one
    equal(first, everything[0])


def test_returns_over_one_step_are_those_of_the_rows_that_were_drawn():
    shared = SharedReplayBuffer(8, 2, row(0), seed=0)
    writer = shared.writer()
    for number in range(8):
        writer.add(rows([number] * 2, [0, 1], terminated=number % 3 == 0))
    batch, indices = shared.sample(64)
    for number in range(8, 20):
        writer.add(rows([number] * 2, [0, 1]))  # over all rows that were drawn
    rew, discount, last = shared.nstep(indices, 1, 0.5)
    np.testing.assert_array_equal(rew, batch.rew)
    np.testing.assert_array_equal(discount, np.where(batch.terminated, 0.0, 0.5))
    assert last is indices
    assert batch.terminated.any()
    with pytest.raises(ValueError, match=r"unit=NStep\(3, 0.5\)"):
        shared.nstep(indices, 3, 0.5)
    with pytest.raises(ValueError, match="the very indices"):
        shared.nstep(np.asarray(indices), 1, 0.5)
    with pytest.raises(IndexError, match="overwritten"):
        shared[indices]


def test_priorities_of_overwritten_rows_are_ignored_and_counted():
    shared = SharedReplayBuffer(4, 1, row(0), sampler=Prioritized(1.0, 1.0), seed=0)
    writer = shared.writer()
    for number in range(4):
        writer.add(rows([number], [0]))
    indices = shared.sample_indices(0)
    shared.update_weight(indices, [0.0, 0.0, 0.0, 5.0])
    assert (shared.sample(200)[0].rew == 3).mean() > 0.99
    writer.add(rows([9], [0]))
    shared.update_weight(indices, [1e9, 0.0, 0.0, 0.0])  # the first of them is gone
    assert shared.stale_updates == 1
    assert (shared.sample(50)[0].rew == 9).all()
    shared.set_beta(0.3)
    with pytest.raises(ValueError, match="beta must be >= 0"):
        shared.set_beta(-1.0)
    with pytest.raises(ValueError, match="position 1"):
        shared.update_weight(indices, [0.0, np.nan, 0.0, 0.0])
    uniform = SharedReplayBuffer(4, 1, row(0))
    assert not hasattr(uniform, "update_weight")
    assert not hasattr(uniform, "set_beta")


def test_an_emptied_ring_has_no_rows_until_new_ones_come():
    for sampler in (Uniform(), Prioritized(0.5, 0.5)):
        shared = SharedReplayBuffer(10, 2, row(0), sampler=sampler, seed=0)
        first, second = shared.writer([0]), shared.writer([1])
        for number in range(3):
            first.add(rows([number], [0]))
            second.add(rows([number + 10], [1]))
        shared.sample(8)
        first.reset()
        assert len(shared) == 3
        assert (shared.sample(100)[0].rew >= 10).all()
        first.add(rows([7], [0]))
        assert set(check_whole(shared.sample(200)[0])) == {7, 10, 11, 12}


def test_an_empty_buffer_says_so():
    shared = SharedReplayBuffer(4, 2, row(0))
    with pytest.raises(ValueError, match="cannot draw 3 rows from an empty buffer"):
        shared.sample(3)
    batch, indices = shared.sample(0)
    assert (len(indices), batch.obs.a.shape, len(shared)) == (0, (0, 40), 0)
    for missing in (0, 4, -1):
        with pytest.raises(IndexError):
            shared[missing]


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"relabel": "future"}, ValueError, "relabel"),
        ({"storage": "lz4"}, ValueError, "storage"),
        ({"ignore_obs_next": True}, ValueError, "ignore_obs_next"),
        ({"save_only_last_obs": True}, ValueError, "save_only_last_obs"),
        ({"sample_avail": True}, ValueError, "sample_avail"),
        ({"other": 1}, TypeError, "other"),
        ({"stack_num": 0}, ValueError, "stack_num"),
        ({"stack_num": 2, "unit": FrameStack(3)}, ValueError, "contradicts"),
        ({"unit": 3}, TypeError, "unit"),
        ({"sampler": 3}, TypeError, "sampler"),
    ],
    ids=str,
)
def test_what_it_lacks_is_refused_at_construction(options, error, match):
    with pytest.raises(error, match=match):
        SharedReplayBuffer(4, 2, row(0), **options)


def test_sequences_are_refused():
    from rlfast.data import Sequence

    with pytest.raises(ValueError, match="Sequence"):
        SharedReplayBuffer(4, 2, row(0), unit=Sequence(3))


def test_options_of_other_buffers_may_have_their_defaults():
    shared = SharedReplayBuffer(5, 2, row(0), storage="ram", relabel=None, unit=Transition())
    assert (shared.maxsize, shared.buffer_num, shared.subbuffer_edges.tolist()) == (6, 2, [0, 3, 6])


def test_more_rows_than_memory_has_are_an_error():
    with pytest.raises(MemoryError, match="shared memory"):
        SharedReplayBuffer(1 << 42, 2, row(0))


def files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_file_is_enough_and_none_is_left_open():
    before = files()
    shared = SharedReplayBuffer(8, 2, row(0), stack_num=2, sampler=Prioritized(0.5, 0.25), unit=NStep(3, 0.5), seed=7)
    writer = shared.writer()
    for number in range(3):
        writer.add(rows([number] * 2, [0, 1]))
    other = SharedReplayBuffer.from_file(shared.fileno())
    equal(other.sample(32)[0], shared.sample(32)[0])
    assert other._description == shared._description
    del shared, writer, other
    assert files() == before


def test_a_buffer_goes_through_a_socket():
    before = files()
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        shared = SharedReplayBuffer(8, 2, row(0))
        shared.writer().add(rows([4, 4], [0, 1]))
        shared.send(ours)
        received = SharedReplayBuffer.receive(theirs)
        del shared
        assert check_whole(received.sample(3)[0]).tolist() == [4, 4, 4]
        ours.send(b"something else")
        with pytest.raises(ValueError, match="expected"):
            SharedReplayBuffer.receive(theirs)
    del received
    assert files() == before


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"\0" * 8192)
    with path.open("r+b") as file, pytest.raises(ValueError, match="no replay buffer"):
        SharedReplayBuffer.from_file(file.fileno())
    with pytest.raises(OSError):
        SharedReplayBuffer.from_file(987654)
    with pytest.raises(ValueError, match="from 0"):
        SharedReplayBuffer.from_file(-1)
    with pytest.raises(TypeError):
        SharedReplayBuffer.from_file("3")


@pytest.mark.parametrize("at", [0, 8, 16, 24, 32, 40, 2048 // 4])
def test_a_damaged_header_is_an_error(at):
    shared = SharedReplayBuffer(8, 2, row(0))
    os.pwrite(shared.fileno(), b"\xff" * 8, at)
    with pytest.raises((ValueError, MemoryError)):
        SharedReplayBuffer.from_file(shared.fileno())


def test_a_copy_shares_the_memory():
    shared = SharedReplayBuffer(8, 2, row(0))
    other = copy.copy(shared)
    shared.writer().add(rows([1, 2], [0, 1]))
    assert len(other) == 2
