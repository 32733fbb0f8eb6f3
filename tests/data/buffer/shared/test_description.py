"""The description of a shared buffer that another process wrote."""

import json
import os
import random

import numpy as np
import pytest

from data.buffer.shared.rows import row
from faults.json_tree import variants
from rlfast import _core
from rlfast.data import Batch, SharedReplayBuffer
from rlfast.data.buffer import NStep, Prioritized
from rlfast.data.buffer.shared.description import Description


def honest():
    return SharedReplayBuffer(8, 2, row(0), sampler=Prioritized(0.5, 0.25), unit=NStep(3, 0.5), seed=7)


def described(shared, text):
    """Returns memory like that of a buffer, with another description."""
    return _core.RingMemory.create(shared._description.columns, 2, 4, text, Batch)


@pytest.mark.parametrize(
    "dtype",
    [
        "|O8",
        "O",
        "i4,O",
        "T",
        "|V8",
        "<M8[s]",
        "<m8",
        "|S8",
        "<U2",
        "no dtype",
        "",
        None,
        8,
        ["<f8"],
        [["a", "|O8"]],
        {"names": ["a"], "formats": ["O"]},
    ],
    ids=str,
)
def test_columns_that_are_no_numbers_are_refused(dtype):
    shared = honest()
    parts = json.loads(shared._description.to_text())
    for column in range(len(parts["columns"])):
        changed = json.loads(json.dumps(parts))
        changed["columns"][column][1] = dtype
        memory = described(shared, json.dumps(changed).encode())
        with pytest.raises(ValueError, match="description in the shared memory is damaged"):
            SharedReplayBuffer.from_file(memory.fileno())


@pytest.mark.parametrize("shape", [[-1], ["3"], [1.0], [True], "3", None, 3, {"0": 1}], ids=str)
def test_other_shapes_are_refused(shape):
    with pytest.raises(ValueError, match="damaged"):
        Description.of_text(json.dumps({**PARTS, "columns": [[["obs"], "<f8", shape]]}).encode())


@pytest.mark.parametrize("path", [[], "obs", ["obs", 1], None, [["obs"]]], ids=str)
def test_other_paths_are_refused(path):
    with pytest.raises(ValueError, match="damaged"):
        Description.of_text(json.dumps({**PARTS, "columns": [[path, "<f8", []]]}).encode())


PARTS = {"columns": [[["obs"], "<f8", []]], "stack_num": 1, "priorities": None, "n_step": None, "seed": 0}


def test_what_a_buffer_writes_is_read():
    for shared in (honest(), SharedReplayBuffer(4, 1, row(0), stack_num=3, seed=0)):
        assert Description.of_text(shared._description.to_text()) == shared._description
    assert Description.of_text(json.dumps(PARTS).encode()).columns == [(("obs",), np.dtype("f8"), ())]


def test_the_engine_has_no_columns_of_objects():
    columns = [((name,), np.dtype("f8"), ()) for name in ("obs", "act", "rew", "terminated", "truncated", "obs_next")]
    for dtype in (object, np.dtype([("a", "i4"), ("b", "O")]), np.dtype(("O", (2,)))):
        odd = [(("obs",), np.dtype(dtype), ()), *columns[1:]]
        with pytest.raises(TypeError, match="obs: columns hold numbers"):
            _core.RingMemory.create(odd, 1, 4, b"", Batch)
        memory = _core.RingMemory.create(columns, 1, 4, b"", Batch)
        with pytest.raises(TypeError, match="obs: columns hold numbers"):
            _core.RingReader(memory, odd, batch=Batch)
        with pytest.raises(TypeError, match="obs: columns hold numbers"):
            _core.RingWriter(memory, odd, [0], Batch)
        with pytest.raises(TypeError, match="obs: columns hold numbers"):
            _core.Replay([4], batch=Batch).define(odd)


def use(shared):
    """Draws and reads; what contradicts itself is refused, and nothing ends the process."""
    try:
        len(shared), shared.sample_indices(0)
        shared[np.arange(2)]
        shared.sample(2)
        with shared.writer() as writer:
            writer.close_episodes()
    except (ValueError, IndexError, MemoryError, TypeError, OverflowError):
        pass


def attack(cases, seed=0):
    """Changes the description, or words of the memory, and returns how many buffers were refused."""
    chance, shared, refused = random.Random(seed), honest(), 0
    with shared.writer() as writer:
        for number in range(5):
            writer.add(Batch.stack([row(number, ring, truncated=number == 2) for ring in range(2)]))
    whole, size = os.pread(shared.fileno(), shared.nbytes, 0), shared.nbytes
    texts = variants(json.loads(shared._description.to_text()), cases // 2, seed)
    numbers = (0, 1, 2, 5, 2**31, 2**63 - 1, 2**63, 2**64 - 1)
    for case in range(cases):
        text = next(texts, None) if case % 2 else None
        if text is not None and len(text) < 2**16:
            memory = described(shared, text.encode())
        else:
            memory = described(shared, shared._description.to_text())
            os.pwrite(memory.fileno(), whole, 0)
            for _ in range(chance.randrange(1, 4)):
                at = 8 * chance.choice([chance.randrange(48), chance.randrange(size // 8)])
                os.pwrite(memory.fileno(), chance.choice(numbers).to_bytes(8, "little"), at)
        try:
            victim = SharedReplayBuffer.from_file(memory.fileno())
        except (ValueError, MemoryError):
            refused += 1
        else:
            use(victim)
    return refused


def test_changed_memory_of_another_process_does_no_harm():
    assert 100 < attack(1000) < 1000
