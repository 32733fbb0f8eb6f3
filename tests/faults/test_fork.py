"""A forked child has none of the engine's threads, and must not wait for them."""

import os
import pickle
import signal
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

from machine import PATIENCE
from rlfast.data import Batch, ReplayBuffer
from rlfast.utils.runtime.cores import cores

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")


def large_buffer():
    """A sample of it is large enough to be gathered by several threads."""
    buffer = ReplayBuffer(64)
    for step in range(64):
        row = np.full(100_000, step, np.float32)
        buffer.add(Batch(obs=row, act=step, rew=0.0, terminated=False, truncated=False, obs_next=row + 1, info={}))
    return buffer


def sampled_right(buffer):
    batch, index = buffer.sample(64)
    return bool((batch.obs == index[:, None]).all())


def helpers():
    """How many helpers this process has."""
    names = [task.read_text().strip() for task in Path("/proc/self/task").glob("*/comm")]
    return names.count("rlfast-pool")


def exit_code_of_child(work, seconds=PATIENCE):
    """Runs ``work`` in a forked child; its exit code, or None if it hangs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of just what is tested here
        child = os.fork()
    if child == 0:
        os._exit(0 if work() else 1)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def test_a_forked_child_samples_with_threads_of_its_own():
    buffer = large_buffer()
    assert sampled_right(buffer)  # from now on the parent has helpers

    def several_times():
        return all(sampled_right(buffer) for _ in range(5))

    assert exit_code_of_child(several_times) == 0
    assert several_times()


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted through /proc")
@pytest.mark.skipif(cores() < 2, reason="one core needs no helpers")
def test_a_forked_child_makes_new_helpers():
    buffer = large_buffer()
    assert sampled_right(buffer)
    assert helpers() > 0
    assert exit_code_of_child(lambda: helpers() == 0 and sampled_right(buffer) and helpers() > 0) == 0


def test_a_childs_child_does_too():
    buffer = large_buffer()
    assert sampled_right(buffer)
    assert (
        exit_code_of_child(lambda: sampled_right(buffer) and exit_code_of_child(lambda: sampled_right(buffer)) == 0)
        == 0
    )


def test_a_child_does_not_touch_the_file_of_its_parents_rows(tmp_path):
    """The file is mapped by both: each would see what the other writes."""
    buffer = ReplayBuffer(8, storage=str(tmp_path))
    row = Batch(obs=np.arange(3), act=1, rew=0.0, terminated=False, truncated=False, obs_next=np.arange(3) + 1, info={})
    buffer.add(row)

    def is_refused():
        for work in (
            lambda: buffer.add(row),
            lambda: buffer.sample(1),
            lambda: buffer[0],
            lambda: pickle.dumps(buffer),
        ):
            with pytest.raises(RuntimeError, match="parent"):
                work()
        return ReplayBuffer(8, storage=str(tmp_path)).add(row)[0].tolist() == [0]

    assert exit_code_of_child(is_refused) == 0
    assert len(buffer) == 1
    assert buffer[0].obs.tolist() == [0, 1, 2]
