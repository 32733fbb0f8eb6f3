"""Ways of starting workers: none of them runs the script again."""

import functools
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from machine import PATIENCE, wait_until
from rlfast.env.process import ProcessBackend
from rlfast.env.process.launch import Server, method_of
from scripted import Scripted

CONTEXTS = ["forkserver", "spawn", "fork"]

SCRIPT = """
    import sys
    import gymnasium as gym
    import numpy as np
    from rlfast.env import SubprocVectorEnv

    print("the script runs", flush=True)

    class Mine(gym.Env):
        observation_space = gym.spaces.Box(-9, 9, (1,), np.float32)
        action_space = gym.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return np.array([SIZE], np.float32), {}

        def step(self, action):
            return np.array([SIZE + action], np.float32), 1.0, False, False, {}

    SIZE = 3
    gym.register("Mine-v0", entry_point=Mine)
    envs = SubprocVectorEnv([lambda: gym.make("Mine-v0", disable_env_checker=True)] * 2, context=sys.argv[1])
    envs.reset()
    print(envs.step([0, 1])[0].tolist())
    envs.close()
"""


@pytest.mark.pitfall("E12")
@pytest.mark.parametrize("context", CONTEXTS)
def test_a_script_needs_no_guard_and_runs_once(tmp_path, context):
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(SCRIPT))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(part for part in sys.path if part)}
    done = subprocess.run(
        [sys.executable, str(path), context], env=env, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (done.stdout, done.stderr) == ("the script runs\n[[3.0], [4.0]]\n", "")


@pytest.mark.pitfall("E12")
@pytest.mark.parametrize("context", CONTEXTS)
def test_a_notebook_has_no_file_to_run_again(context):
    source = textwrap.dedent(SCRIPT).replace("sys.argv[1]", repr(context))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(part for part in sys.path if part)}
    done = subprocess.run(
        [sys.executable, "-"], env=env, input=source, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (done.stdout, done.stderr) == ("the script runs\n[[3.0], [4.0]]\n", "")


@pytest.mark.pitfall("E12")
@pytest.mark.parametrize("context", CONTEXTS)
def test_functions_of_every_kind(make, context):
    length = 7

    class Local(Scripted):
        pass

    fns = [lambda: Local(length), functools.partial(Scripted, 7), Local]
    pool = make(fns, num_workers=2, context=context)
    pool.reset(np.arange(3), [None] * 3, None)
    assert pool.get_attr("length", np.arange(3)) == [7, 7, 3]
    pids = pool.get_attr("spec", np.arange(3))
    assert pids == [None] * 3


def test_unpicklable_env_fn_names_remedy(make):
    lock = threading.Lock()
    with pytest.raises(TypeError, match='context="fork"'):
        make([lambda: Scripted(7 + lock.locked())])
    pool = make([lambda: Scripted(7 + lock.locked())], context="fork")
    assert pool.get_attr("length", np.arange(1)) == [7]


def test_workers_are_where_their_parent_is(make, monkeypatch, tmp_path):
    class Where(Scripted):
        def __init__(self) -> None:
            super().__init__()
            self.where = (os.getcwd(), os.environ.get("RLFAST_TEST"), "/nowhere" in sys.path)  # noqa: PTH109

    make([Where])  # the server is running already
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RLFAST_TEST", "yes")
    monkeypatch.syspath_prepend("/nowhere")
    for context in ("forkserver", "spawn", "fork"):
        assert make([Where], context=context).get_attr("where", np.arange(1)) == [(str(tmp_path), "yes", True)]


def test_a_server_that_was_killed_is_started_again(make):
    pool = make([Scripted] * 2, num_workers=2)
    server = Server.running()
    os.kill(server.child.pid, signal.SIGKILL)
    server.child.join(PATIENCE)
    pool.reset(np.arange(2), [None] * 2, None)  # its children live on
    assert make([Scripted]).get_attr("length", np.arange(1)) == [3]
    assert Server.running() is not server
    pids = [child.pid for child in pool._workers.children]
    pool.close()
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "the end of the workers")


def test_a_forked_parent_has_a_server_of_its_own(make):
    make([Scripted])
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            pool = ProcessBackend([Scripted])
            pool.reset(np.arange(1), [None], None)
            pool.close()
            Server.running().stop()
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert make([Scripted]).get_attr("length", np.arange(1)) == [3]


def test_contexts_are_names_or_objects():
    import multiprocessing

    assert [method_of(name) for name in ("fork", "spawn", None)] == ["fork", "spawn", "forkserver"]
    assert method_of(multiprocessing.get_context("spawn")) == "spawn"


def test_registered_environments_are_known_to_workers(make):
    gym.register("Scripted-v7", entry_point=lambda: Scripted(7))
    try:
        pool = make([lambda: gym.make("Scripted-v7", disable_env_checker=True)])
        assert pool.get_attr("length", np.arange(1)) == [7]
    finally:
        del gym.registry["Scripted-v7"]
