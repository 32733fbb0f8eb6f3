"""Threads that call all methods of one object at the same time: ``python threads.py KIND SECONDS``.

``faulthandler`` shows threads in a deadlock and ends the process. The rows that threads read must be consistent: the
action of a row equals its observation, and its next observation is one more, whatever other threads write.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import pickle
import random
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rlfast._core import NativeEnvs
from rlfast.data import (
    Batch,
    CachedReplayBuffer,
    NStep,
    PrioritizedReplayBuffer,
    PrioritizedVectorReplayBuffer,
    ReplayBuffer,
    SegmentTree,
    Sequence,
    VectorReplayBuffer,
)

THREADS = 4
PATIENCE = 300.0
"""Seconds after the end at which nobody can still be at work."""
Operation = Callable[[random.Random], Any]


def row(number: int, shape: tuple[int, ...], **more: Any) -> Batch:
    obs = np.full(shape, number, np.float32)
    return Batch(
        obs=obs, obs_next=obs + 1, act=number, rew=0.5, terminated=number % 9 == 8, truncated=False, info={}, **more
    )


def makes_sense(batch: Batch) -> None:
    first = batch.obs.reshape(len(batch), -1)[:, -1]
    assert (batch.act == first).all(), (batch.act, first)
    last = batch.obs_next.reshape(len(batch), -1)[:, -1]
    assert (last == first + 1).all() or (first == 0).any(), (first, last)  # zeros: the row was forgotten meanwhile


class Finalized:
    """Garbage that only the collector finds, and that looks at the buffer when it does."""

    def __init__(self, look: Callable[[], Any]) -> None:
        self.look, self.itself = look, self

    def __del__(self) -> None:
        self.look()


def forked(work: Callable[[], Any]) -> None:
    """Does ``work`` in a child, which has no other threads."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        signal.alarm(int(PATIENCE))  # faulthandler's own thread is not here
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "a child failed, or waited for ever"


class Step:
    """A batch of rows for managers."""

    def __init__(self, envs: int, shape: tuple[int, ...]) -> None:
        self.envs, self.shape = envs, shape

    def __call__(self, chance: random.Random) -> Batch:
        first = chance.randrange(1, 10_000)
        return Batch.stack([row(first + env, self.shape) for env in range(self.envs)])


def sampled(buffer: ReplayBuffer, size: int) -> None:
    batch, index = buffer.sample(size)
    makes_sense(batch)
    if hasattr(buffer, "update_weight"):
        buffer.update_weight(index, np.abs(batch.act) + 0.1)


def refused(buffer: ReplayBuffer) -> None:
    """The file of its rows is the parent's."""
    try:
        buffer.sample(8)
    except RuntimeError:
        return
    raise AssertionError("rows that the parent writes were read")


def of_buffer(
    kind: str, buffer: ReplayBuffer, shape: tuple[int, ...], envs: int | None, folder: Path
) -> dict[str, Operation]:
    step = Step(envs or 1, shape)
    every = np.arange(buffer.maxsize)

    def add(chance: random.Random) -> None:
        if envs is None:
            buffer.add(row(chance.randrange(1, 10_000), shape))
        else:
            buffer.add(step(chance), buffer_ids=list(range(envs)))

    operations: dict[str, Operation] = {
        "add": add,
        "add again": add,
        "sample": lambda chance: sampled(buffer, chance.choice([1, 8, 64])),
        "sample many": lambda _: sampled(buffer, 1024),
        "look": lambda _: (len(buffer), buffer.unfinished_index(), repr(buffer.maxsize)),
        "index": lambda _: buffer.sample_indices(16),
        "walk": lambda _: (buffer.prev(every), buffer.next(every)),
        "n-step": lambda _: NStep(3, 0.9).expand(buffer, buffer.sample_indices(32)),
        "sequence": lambda _: Sequence(6, 2).expand(buffer, buffer.sample_indices(8)),
        "copy": lambda _: pickle.loads(pickle.dumps(buffer)),
        "save": lambda chance: buffer.save(folder / f"{chance.randrange(3)}"),
        "garbage": lambda _: (Finalized(lambda: len(buffer)), gc.collect(0)),
        "fork": lambda _: forked(lambda: (len(buffer), sampled(buffer, 64))),
    }
    if kind == "files":
        operations["fork"] = lambda _: forked(lambda: refused(buffer))
    if hasattr(buffer, "weight"):
        operations |= {
            "init weight": lambda _: buffer.init_weight(every),
            "set weight": lambda _: buffer.weight.__setitem__(every, 1.0),
            "look at weight": lambda _: (buffer.weight[every], buffer.weight.reduce(), buffer.set_beta(0.5)),
        }
    return operations


def of_tree(tree: SegmentTree) -> dict[str, Operation]:
    every = np.arange(len(tree))
    values = np.linspace(0.0, 1.0, len(tree))

    def find(_: random.Random) -> None:
        assert 0 < tree.get_prefix_sum_idx(values * 0.5).max() < len(tree)

    return {
        "set": lambda _: tree.__setitem__(every, values),
        "set one": lambda chance: tree.__setitem__(chance.randrange(1, len(tree)), chance.random()),
        "get": lambda _: tree[every],
        "find": find,
        "sum": lambda chance: tree.reduce(0, chance.randrange(len(tree))),
        "copy": lambda _: pickle.loads(pickle.dumps(tree)),
        "fork": lambda _: forked(lambda: find(random.Random(0))),
    }


def of_envs(count: int) -> dict[str, Operation]:
    envs = NativeEnvs("CartPole-v1", count, "SameStep")
    envs.reset(None, list(range(count)))

    def step(chance: random.Random) -> None:
        rewards = envs.step(np.full(count, chance.randrange(2)))[1]
        assert (rewards == 1.0).all()

    return {
        "step": step,
        "step some": lambda chance: envs.step(np.zeros(3, np.int64), np.array(chance.sample(range(count), 3))),
        "reset": lambda chance: envs.reset(np.array([chance.randrange(count)]), [None]),
        "state": lambda chance: envs.set_state(0, envs.get_state(chance.randrange(count))),
        "fork": lambda _: forked(lambda: step(random.Random(0))),
    }


def operations(kind: str, folder: Path) -> dict[str, Operation]:
    match kind:
        case "tree":
            tree = SegmentTree(10_000)
            tree[np.arange(10_000)] = np.linspace(0.0, 1.0, 10_000)  # as it is set later: leaf 0 is never found
            return of_tree(tree)
        case "envs":
            return of_envs(2000)
    buffer, shape, envs = {
        "ring": lambda: (ReplayBuffer(2000), (4,), None),
        "frames": lambda: (ReplayBuffer(300), (4, 16, 16), None),
        "stacked": lambda: (ReplayBuffer(300, stack_num=4), (16, 32), None),
        "files": lambda: (ReplayBuffer(300, storage=str(folder)), (64, 16), None),
        "prioritized": lambda: (PrioritizedReplayBuffer(10_000, 0.6, 0.4), (4,), None),
        "vector": lambda: (VectorReplayBuffer(3000, 3), (4,), 3),
        "cached": lambda: (CachedReplayBuffer(ReplayBuffer(2000), 3, 50), (4,), 3),
        "prioritized vector": lambda: (PrioritizedVectorReplayBuffer(9000, 3, alpha=0.6, beta=0.4), (4,), 3),
    }[kind]()
    known = of_buffer(kind, buffer, shape, envs, folder)
    chance = random.Random(1)
    for _ in range(400):
        known["add"](chance)
    return known


def work(
    known: dict[str, Operation], seconds: float, seed: int, done: dict[str, int], failed: list[BaseException]
) -> None:
    chance = random.Random(seed)
    names = sorted(known)
    rare = {"fork", "copy", "save", "garbage"} & known.keys()
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end and not failed:
            name = chance.choice(names)
            if name in rare and chance.random() > 0.05:
                continue
            known[name](chance)
            done[name] = done.get(name, 0) + 1
    except BaseException as error:
        failed.append(error)


def main(kind: str, seconds: float) -> None:
    faulthandler.dump_traceback_later(seconds + PATIENCE, exit=True)
    sys.setswitchinterval(1e-4)
    failed: list[BaseException] = []
    done: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        known = operations(kind, Path(folder))
        threads = [
            threading.Thread(target=work, args=(known, seconds, seed, done, failed), daemon=True)
            for seed in range(THREADS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if failed:
        raise failed[0]
    print(sum(done.values()), dict(sorted(done.items())))  # noqa: T201 - read by the test


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
