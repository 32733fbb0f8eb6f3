"""Threads that share an object never deadlock, and no Python code runs under a lock."""

import itertools
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from faults.engines import add, engine
from machine import PATIENCE
from rlfast.data import Batch, VectorReplayBuffer

PROGRAM = Path(__file__).with_name("threads.py")
KINDS = ["ring", "frames", "stacked", "files", "prioritized", "vector", "cached", "prioritized vector", "tree", "envs"]


def ended(arguments):
    """What a program printed, which must end by itself."""
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="one of the operations is a fork")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seconds", [0.4, pytest.param(20.0, marks=pytest.mark.long)], ids=["quick", "long"])
def test_threads_at_one_object_never_stop_each_other(kind, seconds):
    assert int(ended([str(PROGRAM), kind, str(seconds)]).split()[0]) > 0


WATCHED = """
import faulthandler, sys
# A deadlock of one thread with itself cannot be broken from inside.
faulthandler.dump_traceback_later({patience}, exit=True)
sys.path[:0] = {path!r}
{script}
"""


def watched(script):
    ended(["-c", WATCHED.format(path=sys.path, script=script, patience=PATIENCE / 4)])


def test_arguments_are_read_before_a_tree_is_locked():
    watched("""
from rlfast.data import SegmentTree
tree = SegmentTree(4)
class Looks:
    def __index__(self): return len(tree) - int(tree.reduce()) - 1
    def __float__(self): return 1.0 + tree.reduce() / 4
    def __array__(self, *args, **kwargs):
        import numpy as np
        return np.array([2, len(tree) - 2])
tree[Looks()] = Looks()
assert tree[Looks()] == 0.0 and tree[3] == 1.0
tree[Looks()] = 2.0
assert tree.reduce() == 3.0 and tree.get_prefix_sum_idx(Looks()) == 2
""")


def test_what_a_batch_is_written_to_may_look_at_its_engine():
    watched("""
from faults.engines import add, engine
replay = add(engine(), 9)
class Looks(dict):
    def __contains__(self, key): return len(replay) == 0
batch, index = replay.sample(3, Looks())
assert len(index) == 3
class Row(dict):
    def __getitem__(self, key): raise AssertionError("a dict is read as a dict")
class Key(str):
    def __eq__(self, other): return len(replay) > 0 and str.__eq__(self, other)
    def __hash__(self): return len(replay) * 0 + str.__hash__(self)
row = {Key(name): batch.__dict__[name][:1] for name in ("obs", "obs_next", "act", "rew", "terminated", "truncated")}
import numpy as np
replay.add(row, np.array([0]))
assert len(replay) == 10
""")


def test_a_finalizer_may_look_at_the_object_that_is_at_work():
    """Exceptions are made of containers, and making one may start a collection."""
    watched("""
import gc
import numpy as np
from faults.engines import add, engine
replay = add(engine(), 9)
class Garbage:
    def __init__(self): self.itself = self
    def __del__(self): seen.append((len(replay), replay.tree.reduce()))
seen = []
gc.set_threshold(1)
for _ in range(50):
    Garbage()
    replay.sample(2)
    replay.tree[np.arange(3)] = 1.0
    for bad in (lambda: replay.take(np.array([99])), lambda: replay.tree[np.array([99])]):
        try:
            bad()
        except IndexError:
            pass
assert seen
""")


def in_the_background(work):
    """Repeats ``work`` in a thread until the returned function is called."""
    over, failed = threading.Event(), []

    def run():
        try:
            while not over.is_set():
                work()
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def end():
        over.set()
        thread.join(PATIENCE)
        assert not thread.is_alive()
        assert not failed

    return end


def test_rows_are_whole_while_another_thread_writes():
    """With frames, arrays are made after a first look at the rows: what was written in between must not show."""
    replay = engine([64], alpha=None)
    shape = (4, 16, 16)
    columns = [
        (("obs",), np.dtype("u1"), shape),
        (("obs_next",), np.dtype("u1"), shape),
        (("rew",), np.dtype("f8"), ()),
    ]
    replay.define(columns + [((name,), np.dtype(bool), ()) for name in ("terminated", "truncated")])

    def write(number=[0]):  # noqa: B006 - it counts
        number[0] += 1
        frames = np.repeat(np.arange(number[0], number[0] + 5), 256).astype(np.uint8).reshape(5, 16, 16)
        row = {"obs": frames[None, :4], "obs_next": frames[None, 1:], "rew": np.array([float(frames[0, 0, 0])])}
        replay.add(row | {"terminated": np.array([number[0] % 7 == 0]), "truncated": np.array([False])}, np.array([0]))

    for _ in range(64):
        write()
    end = in_the_background(write)
    until = time.monotonic() + 1.0
    while time.monotonic() < until:
        batch, _ = replay.sample(256)
        assert (batch.obs[:, 0, 0, 0] == batch.rew).all()
        assert (batch.obs_next[:, :3] == batch.obs[:, 1:]).all()
        assert (batch.obs_next[:, 3] == batch.obs[:, 3] + np.uint8(1)).all()
    end()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize("kind", ["replay", "tree", "envs"])
def test_a_child_forked_while_a_thread_works_can_work_too(kind):
    script = {
        "replay": """
work = lambda: replay.take(np.arange(2000))
replay = add(engine([2000], alpha=None), 2000, width=5000)
""",
        "tree": """
tree, index = SegmentTree(200_000), np.arange(200_000)
def work(): tree[index] = 1.0
""",
        "envs": """
envs = NativeEnvs("CartPole-v1", 20_000, "SameStep")
envs.reset(None, list(range(20_000)))
work = lambda: envs.step(np.zeros(20_000, np.int64))
""",
    }[kind]
    watched(f"""
import os, signal, threading, time, warnings
import numpy as np
from faults.engines import add, engine
from rlfast._core import NativeEnvs, SegmentTree
warnings.simplefilter("ignore", DeprecationWarning)
{script}
work()
over = []
def forever():
    while not over: work()
thread = threading.Thread(target=forever, daemon=True)
thread.start()
for _ in range(15):
    time.sleep(0.01)
    child = os.fork()
    if child == 0:
        signal.alarm(300)
        work()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
over.append(True)
thread.join()
""")


def test_a_value_is_there_for_all_who_hold_it():
    """The tree of a replay engine is under the engine's lock, and stays its tree after a snapshot is restored."""
    replay = add(engine(), 9)
    tree = replay.tree
    saved = replay.dump()
    tree[0] = 5.0
    replay.restore(saved)
    assert tree[0] == replay.tree[0] != 5.0
    del replay
    assert len(tree) == 11


@pytest.mark.parametrize("of_store", [False, True])
def test_attributes_may_appear_while_an_object_is_pickled(of_store):
    """As when another thread reads a cached attribute for the first time."""
    buffer, times = VectorReplayBuffer(8, 2), itertools.count()
    buffer.add(Batch(obs=[0, 1], act=[0, 0], rew=[0.0, 0.0], terminated=[False] * 2, truncated=[False] * 2))
    owner = buffer._store if of_store else buffer

    def grow(frame, event, _):
        if frame.f_code.co_name not in ("__getstate__", "<dictcomp>"):
            return None
        frame.f_trace_opcodes = True
        owner.__dict__[f"later{next(times)}"] = 0
        return grow

    sys.settrace(grow)
    try:
        state = owner.__getstate__()
    finally:
        sys.settrace(None)
    assert next(times) > 1
    assert state
