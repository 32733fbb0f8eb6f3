"""Random sequences of faults: nothing hangs, and no process or memory is left over."""

import gc
import os
import signal
from pathlib import Path

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from faulty import FAULTS, Faulty
from machine import HANG, wait_until
from rlfast.env.errors import EnvFailure
from rlfast.env.process import ProcessBackend
from scripted import Scripted

KINDS = ["raise", "sys.exit", "exit", "kill", "segv", "hang", "spin", "killed"]
ENVS, WORKERS = 4, 2


class Stormy(Scripted):
    """An environment whose actions name what it does; some of them are faults."""

    def __init__(self) -> None:
        super().__init__(length=50, actions=1 + len(KINDS))

    def step(self, action):
        if action > 0 and KINDS[action - 1] != "killed":
            FAULTS[KINDS[action - 1]]()
        return super().step(action)


if not Path("/proc/self/fd").exists():
    pytest.skip("open files and children are listed in /proc", allow_module_level=True)


def resources():
    """Open files of this process, and its children."""
    gc.collect()  # what earlier tests left
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    return len(os.listdir("/proc/self/fd")), len(children)  # noqa: PTH208


def shared_memory():
    """The names of shared memory, of all programs."""
    return set(os.listdir("/dev/shm"))  # noqa: PTH208


def weather(pool, rng, faults):
    """Does steps, every third with a fault in one environment, and returns the number of faults."""
    everyone, seen = np.arange(ENVS), 0
    pool.reset(everyone, [None] * ENVS, None)
    pids, late = set(), False
    while seen < faults:
        pids.update(child.pid for child in pool._workers.children if child is not None)
        actions, kind = np.zeros(ENVS, int), None
        if rng.random() < 0.34:
            kind = int(rng.integers(len(KINDS)))
            actions[rng.integers(ENVS)] = kind + 1
            seen += 1
        failed = stormy_step(pool, actions, kind, everyone, late)
        late = not failed and (late or (kind is not None and KINDS[kind] == "killed"))
        if failed:
            calm(pool, everyone)
    return pids


def calm(pool, everyone):
    """Resets all environments; a killed worker may be detected only now."""
    for _ in range(5):
        try:
            while pool._stepping.any():
                pool.recv(1)
            return pool.reset(everyone, [None] * ENVS, None)
        except EnvFailure:
            continue
    raise AssertionError("it never calms down")


def stormy_step(pool, actions, kind, everyone, late):
    """Does one step and returns whether it raised an error.

    :param late: whether a worker was killed and nobody has noticed yet.
    """
    pool.send(actions, everyone)
    if kind is not None and KINDS[kind] == "killed":
        victim = pool._workers.children[int(np.flatnonzero(actions)[0]) * WORKERS // ENVS]
        os.kill(victim.pid, signal.SIGKILL)
    try:
        rows = pool.recv(ENVS)
    except EnvFailure as failure:
        assert kind is not None or late
        assert pool.on_error == "raise"
        return failure.env_id in everyone
    np.testing.assert_array_equal(rows.env_id, everyone)
    if pool.autoreset_mode is AutoresetMode.DISABLED and (over := np.flatnonzero(rows.done)).size:
        pool.reset(over, [None] * len(over), None)
    if kind is not None and KINDS[kind] != "killed":  # that may come too late to be noticed in this step
        at = int(np.flatnonzero(actions)[0])
        assert pool.on_error == "restart"
        assert not rows.valid[at]  # it broke, or (NEXT_STEP) was only reset after it had broken before
    return False


def storm(faults, seed):
    ProcessBackend([Faulty]).close()  # starts what all pools share
    before, names, rng = resources(), shared_memory(), np.random.default_rng(seed)
    pids = set()
    for on_error in ("raise", "restart"):
        mode = list(AutoresetMode)[seed % 3]
        pool = ProcessBackend(
            [Stormy] * ENVS, num_workers=WORKERS, step_timeout=HANG, on_error=on_error, autoreset_mode=mode
        )
        pids |= weather(pool, rng, faults)
        pool.close()
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "the end of all workers")
    assert resources() == before
    wait_until(lambda: shared_memory() <= names, "the end of what other programs keep there for a moment")
    return len(pids)


@pytest.mark.pitfall("E5")
@pytest.mark.pitfall("E6")
def test_a_short_storm():
    storm(faults=6, seed=0)


@pytest.mark.long
@pytest.mark.pitfall("E5")
@pytest.mark.pitfall("E6")
@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
def test_a_storm_of_a_thousand_faults(seed):
    storm(faults=100, seed=seed)
