"""Environments that want more memory than there is."""

import os
from pathlib import Path

import numpy as np
import pytest

from machine import wait_until
from rlfast.env import SubprocVectorEnv
from rlfast.env.errors import EnvFailure, WorkerDied
from scripted import Scripted

resource = pytest.importorskip("resource", reason="limits on memory are POSIX's")
if not Path("/proc/self").exists():
    pytest.skip("memory and its limits are read from /proc", allow_module_level=True)

LIMIT = 256 << 20  # bytes, well over what a worker needs


class Greedy(Scripted):
    """An environment that allocates all available memory in the step whose action is 1."""

    def step(self, action):
        hoard = []
        while action == 1:
            hoard.append(np.ones(1 << 17))  # written to, so the pages are there
        return super().step(action)


class Bounded(Greedy):
    """An environment whose allocations fail."""

    def step(self, action):
        unlimited = resource.getrlimit(resource.RLIMIT_AS)
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + LIMIT, unlimited[1]))
        try:
            return super().step(action)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, unlimited)


def memory_groups():
    """Yields the folder of each cgroup of the process that limits memory, and the name of the limit."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "memory":
            yield Path("/sys/fs/cgroup/memory" + path), "memory.limit_in_bytes"
        elif controllers == "":
            yield Path("/sys/fs/cgroup" + path), "memory.max"


def limited_group():
    """A group under a limit that the system enforces by killing; None where none can be made."""
    for folder, limit in memory_groups():
        group = folder / f"rlfast-test-{os.getpid()}"
        try:
            group.mkdir(exist_ok=True)
            (group / limit).write_text(str(LIMIT))
        except OSError:
            continue
        return group
    return None


@pytest.fixture
def confine():
    """Puts a process under a memory limit."""
    group = limited_group()
    if group is None:
        pytest.skip("no group of processes with a memory limit can be made here")
    members = group / "cgroup.procs"
    yield lambda pid: members.write_text(str(pid))
    wait_until(lambda: not members.read_text(), "the end of the processes under the limit")
    group.rmdir()


@pytest.mark.pitfall("E5")
def test_oom_killed_worker_is_reported(confine):
    envs = SubprocVectorEnv([Scripted, Greedy], num_workers=2)
    try:
        envs.reset()
        confine(envs._backend._workers.children[1].pid)
        envs.step([1, 0])
        with pytest.raises(WorkerDied, match=r"environment 1 failed: .*SIGKILL \(.*because memory ran out\)") as caught:
            envs.step([0, 1])
        assert (caught.value.env_id, caught.value.signal, caught.value.action) == (1, "SIGKILL", 1)
        envs.reset()
        assert envs.step([0, 0])[0].tolist() == [[1, 1], [0, 1]]
    finally:
        envs.close()


@pytest.mark.pitfall("E5")
def test_training_survives_memory_error(confine):
    envs = SubprocVectorEnv([Scripted, Greedy], num_workers=2, on_error="restart")
    try:
        envs.reset()
        confine(envs._backend._workers.children[1].pid)
        _, _, terminated, truncated, infos = envs.step([0, 1])
        assert (terminated.tolist(), truncated.tolist()) == ([False, False], [False, True])
        assert "because memory ran out" in infos[1]["restarted"]
        assert envs.restarts == 1
        envs.reset(1)
        assert envs.step([0, 0])[0].tolist() == [[0, 2], [1, 1]]
    finally:
        envs.close()


@pytest.mark.pitfall("E5")
def test_an_environment_that_is_refused_memory_raises():
    envs = SubprocVectorEnv([Scripted, Bounded], num_workers=2)
    try:
        envs.reset()
        with pytest.raises(EnvFailure, match=r"environment 1 failed in step.*MemoryError") as caught:
            envs.step([0, 1])
        assert isinstance(caught.value.__cause__, MemoryError)
        envs.reset()  # its worker lives
        assert envs.step([0, 0])[0].tolist() == [[1, 1], [1, 1]]
    finally:
        envs.close()
