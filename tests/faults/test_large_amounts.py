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
from rlfast.data import (
    Batch,
    CachedReplayBuffer,
    PrioritizedReplayBuffer,
    ReplayBuffer,
    SegmentTree,
    VectorReplayBuffer,
)
from rlfast.utils.runtime.seeding import generator

CALLS = {
    "sample": lambda amount: add(engine(), 9).sample(amount),
    "draw": lambda amount: add(engine(), 9).draw(amount),
    "draw from a ring": lambda amount: add(engine(), 9).draw(2, amount),
    "take": lambda amount: add(engine(), 9).take(amount),
    "take stacks": lambda amount: add(engine(), 9).take(np.array([0]), stack_num=amount),
    "take keys": lambda amount: add(engine(), 9).take(np.array([0]), amount),
    "window": lambda amount: add(engine(), 9).window(np.array([0]), 0, amount),
    "window before": lambda amount: add(engine(), 9).window(np.array([0]), amount, amount),
    "unroll": lambda amount: add(engine(), 9).unroll(np.array([0]), amount),
    "nstep": lambda amount: add(engine(), 9).nstep(np.array([0]), amount, 0.9),
    "hindsight": lambda amount: add(engine(), 9).hindsight(np.array([0]), 4.0, amount),
    "capacities": lambda amount: engine(amount),
    "a capacity": lambda amount: engine([amount, amount]),
    "shapes": lambda amount: engine().define([(("a",), np.dtype("f8"), (amount, 7))]),
    "a shape": lambda amount: engine().define([(("a",), np.dtype("f8"), amount)]),
    "depth": lambda amount: engine().define([(tuple(["a"] * 100_000), np.dtype("f8"), ())], [("b",)]),
    "foreign depth": lambda amount: engine().define([], [(tuple(["b"] * 100_000), np.empty(11, object))]),
    "sizes": lambda amount: engine().load({}, amount, amount),
    "set_running": lambda amount: engine().set_running(0, amount, 1, 0),
    "shift": lambda amount: _core.shift(np.array([5]), amount),
    "carry": lambda amount: _core.carry(np.array([5]), amount),
    "step_rows": lambda amount: _core.step_rows(np.array([0]), amount, np.array([2**62])),
    "randint": lambda amount: _core.randint(np.random.PCG64(0), 5, amount),
    "randint below": lambda amount: _core.randint(np.random.PCG64(0), amount, 3),
    "integers_of_each": lambda amount: _core.integers_of_each(amount, 5),
    "uniform_below": lambda amount: _core.uniform_below(np.random.PCG64(0), amount),
    "set_num_threads": lambda amount: _core.set_num_threads(amount),
    "environments": lambda amount: _core.NativeEnvs("CartPole-v1", amount, "NextStep"),
    "limits": lambda amount: _core.NativeEnvs("CartPole-v1", 2, "NextStep", amount),
    "options": lambda amount: _core.NativeEnvs("CartPole-v1", 1, "NextStep").reset(None, [1], amount),
    "arguments": lambda amount: _core.NativeEnvs("FrozenLake-v1", 1, "NextStep", None, {"desc": amount}),
    "leaves": lambda amount: SegmentTree(amount),
    "a leaf": lambda amount: SegmentTree(5)[amount],
    "masses": lambda amount: SegmentTree(5).get_prefix_sum_idx(amount),
    "leaves to set": lambda amount: SegmentTree(5).__setitem__(amount, 1.0),
    "starts": lambda amount: _core.Slab(amount, 64),
    "the last start": lambda amount: _core.Slab([0, amount], 64),
    "shared bytes": lambda amount: _core.Slab([0, 1], amount),
    "a shared view": lambda amount: _core.Slab([0, 1], 64).view(0, np.dtype("u1"), amount),
    "an offset": lambda amount: _core.Slab([0, 1], 64).view(amount, np.dtype("u1"), (1,)),
    "files": lambda amount: _core.WorkerEndpoint.attach(amount, [0, 1], 64, 0),
    "a file": lambda amount: _core.WorkerEndpoint.attach([amount], [0, 1], 64, 0),
    "attached starts": lambda amount: attached(starts=amount),
    "attached bytes": lambda amount: attached(data=amount),
    "an attached worker": lambda amount: attached(worker=amount),
    "answers": lambda amount: _core.Slab([0, 1], 64).endpoint(0).answer(amount, 0.0, False, False, 0),
    "entered": lambda amount: _core.Slab([0, 1], 64).endpoint(0).enter(amount, 0),
    "rows drawn": lambda amount: ring().sample(amount),
    "rows by priority": lambda amount: ring(PrioritizedReplayBuffer, alpha=0.6, beta=0.4).sample(amount),
    "rows before": lambda amount: ring().prev(amount),
    "rows": lambda amount: ring()[amount],
    "a seed": lambda amount: generator(amount),
    "rows to empty": lambda amount: Batch(a=np.zeros(3)).empty_(amount),
    "buffer ids": lambda amount: VectorReplayBuffer(10, 2).close_episodes(amount),
    "ids of caches": lambda amount: CachedReplayBuffer(ReplayBuffer(10), 2, 5).add(Batch(), amount),
    "a stack": lambda amount: ring().get(0, "obs", stack_num=amount),
    "a window": lambda amount: ring().window(np.array([0]), 0, amount),
}


def attached(*, starts=(0, 1), data=64, worker=0):
    """A worker's endpoint behind the file of a slab."""
    slab = _core.Slab([0, 1], 64)
    return _core.WorkerEndpoint.attach(slab.files(0), starts, data, worker)


def ring(kind=ReplayBuffer, **options):
    buffer = kind(10, **options)
    for step in range(5):
        buffer.add(Batch(obs=step, act=0, rew=0.0, terminated=False, truncated=False, obs_next=step + 1, info={}))
    return buffer


@pytest.mark.parametrize("call", CALLS)
def test_no_amount_ends_or_stops_the_process(call):
    cases = [(name, lambda value=value: CALLS[call](value())) for name, value in VALUES.items()]
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
