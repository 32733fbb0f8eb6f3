"""Amounts beyond all memory, or that are not amounts, raise exceptions, and never abort, panic or hang."""

import os

import numpy as np
import pytest

pytest.importorskip("resource", reason="limits of POSIX")

from faults.amounts.sweep import run
from faults.amounts.values import VALUES
from faults.engines import add, engine
from machine import PATIENCE
from rlfast import _core
from rlfast.data import Batch, PrioritizedReplayBuffer, ReplayBuffer, SegmentTree
from rlfast.utils.runtime.seeding import generator


def ring(kind=ReplayBuffer, **options):
    buffer = kind(10, **options)
    for step in range(5):
        buffer.add(Batch(obs=step, act=0, rew=0.0, terminated=False, truncated=False, obs_next=step + 1, info={}))
    return buffer


INNER = {  # amounts within arguments; those that are arguments are tried by test_amounts.py
    "capacities": lambda amount: engine([amount, amount]),
    "shapes": lambda amount: engine().define([(("a",), np.dtype("f8"), (amount, 7))]),
    "a shape": lambda amount: engine().define([(("a",), np.dtype("f8"), amount)]),
    "depth": lambda amount: engine().define([(tuple(["a"] * 100_000), np.dtype("f8"), ())], [("b",)]),
    "foreign depth": lambda amount: engine().define([], [(tuple(["b"] * 100_000), np.empty(11, object))]),
    "a start": lambda amount: _core.Slab([0, amount], 64),
    "a file": lambda amount: _core.WorkerEndpoint.attach([amount], [0, 1], 64, 0),
    "arguments": lambda amount: _core.NativeEnvs("FrozenLake-v1", 1, "NextStep", None, {"desc": amount}),
    "a leaf": lambda amount: SegmentTree(5)[amount],
    "leaves to set": lambda amount: SegmentTree(5).__setitem__(amount, 1.0),
    "a seed": lambda amount: generator(amount),
}


@pytest.mark.parametrize("call", INNER)
def test_no_amount_ends_or_stops_the_process(call):
    cases = [(name, lambda value=value: INNER[call](value())) for name, value in VALUES.items()]
    assert run(cases, seconds=PATIENCE) == {}


@pytest.mark.parametrize("pid", [0, -1, 2**31, 2**63, 0.5])
def test_only_numbers_of_processes_are_watched(pid):
    assert run([("end_with", lambda: _core.end_with(pid))], seconds=PATIENCE) == {}
    with pytest.raises((ValueError, OverflowError, TypeError)):
        _core.end_with(pid)


@pytest.mark.parametrize("amount", [10**13, 2**61])
def test_the_error_says_how_many_bytes_were_asked_for(amount):
    with pytest.raises(MemoryError, match=str(amount * 8)):
        ring().sample(amount)


def test_a_section_larger_than_memory_is_an_error(tmp_path):
    path = tmp_path / "sparse.rlfast"
    add(engine(), 9).save(str(path))
    head = path.read_bytes()[:8]
    with path.open("wb") as file:
        file.write(head + b"HEAD" + (10**13).to_bytes(8, "little"))
        os.truncate(file.fileno(), 10**13 + 1000)
    with pytest.raises((MemoryError, OSError)):
        engine().open(str(path))


def test_the_least_priority_is_found_without_memory_for_a_tree_of_it():
    tree = PrioritizedReplayBuffer(1000, alpha=1.0, beta=1.0, weight_norm=False)
    for step in range(5):
        tree.add(Batch(obs=step, act=0, rew=0.0, terminated=False, truncated=False, obs_next=step + 1, info={}))
    tree.update_weight(np.arange(5), np.arange(1, 6))
    assert tree.get_weight(np.array([0, 4])) == pytest.approx([1, 0.2], rel=1e-5)
