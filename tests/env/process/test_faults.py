"""Environments that raise errors, crash, hang and are killed, and parents that are killed."""

import gc
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from faulty import Faulty, Slow
from machine import HANG, PATIENCE, is_running, wait_until
from rlfast.env.errors import EnvFailure, WorkerDied
from scripted import Scripted

EVERYONE = np.arange(4)
DEATHS = {
    "exit": ("left with exit status 3", 3, None),
    "kill": ("killed by SIGKILL", -9, "SIGKILL"),
    "segv": ("killed by SIGSEGV", -11, "SIGSEGV"),
}


def fleet(fault, env=2, **faulty):
    """Makes four environments, one of which fails later."""
    return [Scripted] * env + [lambda: Faulty(fault, **faulty)] + [Scripted] * (3 - env)


@pytest.mark.pitfall("E5")
@pytest.mark.parametrize("phase", ["step", "reset", "constructor"])
def test_exception_names_env_cause_action(make, phase):
    fns = fleet("raise", phase=phase, at=2)
    doing = {"step": r"step\(action=np.int64\(2\)\)", "reset": r"reset\(\)", "constructor": "its constructor"}[phase]
    with pytest.raises(
        EnvFailure, match=f"environment 2 failed in {doing}: ZeroDivisionError: no such number"
    ) as caught:
        pool = make(fns, num_workers=2)
        pool.begin()
        pool.begin()
        pool.go()
        pool.go()
    failure = caught.value
    assert (failure.env_id, failure.phase, failure.action) == (2, phase, 2 if phase == "step" else None)
    assert isinstance(failure.__cause__, ZeroDivisionError)
    assert "in strike" in failure.traceback
    assert "in strike" in failure.__cause__.__notes__[0]
    if phase == "step":  # the others' answers are there, and all go on after a reset
        assert pool.rest() == [0, 1, 3]
        pool.begin()
        assert pool.go(action=1).obs[:, 1].tolist() == [1] * 4


def test_unpicklable_exceptions_become_text(make):
    for fault, text in [("unpicklable", "Boom: boom 7"), ("sys.exit", "SystemExit: 4")]:
        pool = make(fleet(fault), num_workers=2)
        pool.begin()
        pool.go()
        with pytest.raises(EnvFailure, match=text) as caught:
            pool.go()
        assert "in strike" in caught.value.traceback


@pytest.mark.pitfall("E5")
@pytest.mark.parametrize("phase", ["step", "reset", "constructor"])
@pytest.mark.parametrize("death", sorted(DEATHS))
def test_a_death_is_told(make, phase, death):
    words, status, name = DEATHS[death]
    with pytest.raises(EnvFailure, match=f"environment 2 failed.* its worker (was )?{words}") as caught:
        pool = make(fleet(death, phase=phase), num_workers=2)
        pool.begin()
        pool.begin()
        pool.go()
        pool.go()
    failure = caught.value
    assert (failure.env_id, failure.phase) == (2, phase)
    if phase == "constructor":
        return
    assert isinstance(failure, WorkerDied)
    assert (failure.exitcode, failure.signal, failure.lost) == (status, name, (2, 3))
    if phase == "step":
        assert failure.action == 2
        assert pool.rest() == [0, 1]
        with pytest.raises(RuntimeError, match=r"environments \[3\] were lost"):
            pool.go([0, 3])
        with pytest.raises(RuntimeError, match="environment 2 was lost"):
            pool.get_attr("length", np.array([2]))
        pool.go([0, 1])
    obs = pool.begin()  # builds the lost ones anew
    np.testing.assert_array_equal(obs[2:], [[0, 0]] * 2)
    assert pool.go().obs[:, 1].tolist() == [1] * 4
    assert pool.restarts == 2


@pytest.mark.pitfall("E6")
@pytest.mark.parametrize("fault", ["hang", "spin"])
@pytest.mark.parametrize("phase", ["step", "reset"])
def test_a_hang_is_ended(make, fault, phase):
    pool = make(fleet(fault, phase=phase), num_workers=2, step_timeout=HANG)
    pool.begin()
    start = time.monotonic()
    with pytest.raises(
        WorkerDied, match=rf"environment 2 did not return within step_timeout={HANG:g} s in {phase}"
    ) as caught:
        pool.begin()
        pool.go()
        pool.go()
    assert time.monotonic() - start > HANG - 0.1
    assert (caught.value.env_id, caught.value.timeout) == (2, HANG)
    assert pool.rest() == ([0, 1] if phase == "step" else [])
    pool.begin()


@pytest.mark.pitfall("E6")
def test_a_worker_that_is_stopped_hangs(make):
    pool = make([Scripted] * 4, num_workers=2, step_timeout=HANG)
    pool.begin()
    os.kill(pool._workers.children[1].pid, signal.SIGSTOP)
    with pytest.raises(WorkerDied, match="environment 2 did not return within step_timeout"):
        pool.go()
    assert pool.rest() == [0, 1]


@pytest.mark.pitfall("E6")
def test_slow_env_in_time_does_not_hang(make):
    pool = make([lambda: Slow(0.3 * HANG, length=9)] * 4, num_workers=1, step_timeout=HANG)
    pool.begin()
    for _ in range(2):
        assert len(pool.go().env_id) == 4  # longer than HANG together


@pytest.mark.pitfall("E6")
def test_closing_does_not_wait_for_a_hang(make):
    pool = make([lambda: Faulty("spin", at=1)] * 2, num_workers=2)
    pool.begin(envs=[0, 1])
    pool.send(np.zeros(2, int), np.arange(2))
    time.sleep(0.2)  # until it spins, most likely; then the fixture closes the pool


@pytest.mark.pitfall("E5")
def test_a_death_between_steps_is_told_by_the_next(make):
    pool = make([Scripted] * 4, num_workers=2)
    pool.begin()
    victim = pool._workers.children[0].pid
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: not is_running(victim), "its end")
    with pytest.raises(WorkerDied, match=r"environment 0 failed: its worker was killed by SIGKILL.* before it began"):
        pool.go()
    assert pool.rest() == [2, 3]
    with pytest.raises(WorkerDied, match="SIGKILL"):
        os.kill(pool._workers.children[1].pid, signal.SIGKILL)
        pool.get_attr("length", np.array([3]))


# -- on_error="restart" ----------------------------------------------------------------------------------------------


@pytest.mark.pitfall("E5")
@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("fault", ["raise", "exit", "kill", "hang"])
def test_restarting_marks_the_episode_and_goes_on(make, tmp_path, mode, fault):
    fns = fleet(fault, once=str(tmp_path / "once"), length=9)
    pool = make(fns, num_workers=2, step_timeout=HANG, on_error="restart", autoreset_mode=mode)
    for other in (0, 1, 3):
        pool.set_attr("length", [9], np.array([other]))
    pool.begin()
    assert pool.go().valid is None
    rows = pool.go()
    died = fault != "raise"
    lost = [2, 3] if died else [2]  # its worker is gone, whether or not it had answered
    np.testing.assert_array_equal(rows.env_id, EVERYONE)
    np.testing.assert_array_equal(rows.valid, [env not in lost for env in range(4)])
    np.testing.assert_array_equal(rows.truncated[[0, 1, 2]], [False, False, True])
    assert not rows.terminated.any()
    assert rows.truncated[3] == died
    np.testing.assert_array_equal(rows.obs[lost], [[0, 0]] * len(lost))  # of the new episode
    np.testing.assert_array_equal(rows.obs[[0, 1]], [[0, 2]] * 2)
    assert rows.rew[2] == 0
    infos = rows.info.dicts()
    assert "environment 2" in infos[2]["restarted"]
    assert infos[0] == infos[1] == {}
    assert pool.restarts == (2 if died else 1)
    if mode is AutoresetMode.DISABLED:
        pool.begin(envs=np.flatnonzero(rows.done))
    rows = pool.go()
    if mode is AutoresetMode.NEXT_STEP:
        np.testing.assert_array_equal(rows.valid, [True, True, False, not died])
        rows = pool.go()
    assert rows.valid is None
    assert not rows.done.any()
    assert rows.obs[2].tolist()[1] == 1
    assert pool.get_attr("length", np.array([3])) == [9]  # what was set is set again


@pytest.mark.pitfall("E5")
def test_idle_envs_of_dead_worker_raise_at_next_step(make, tmp_path):
    fns = fleet("kill", env=0, once=str(tmp_path / "once"), length=9)
    pool = make(fns, num_workers=2, on_error="restart")
    pool.begin()
    pool.go()
    rows = pool.go([0, 2])
    assert rows.truncated.tolist() == [True, False]
    assert pool.restarts == 2
    rows = pool.go([1, 3])
    assert rows.truncated.tolist() == [True, False]
    assert rows.valid.tolist() == [False, True]
    pool.begin(envs=[0, 1])
    rows = pool.go()
    assert rows.valid is None
    assert not rows.truncated.any()


@pytest.mark.pitfall("E5")
def test_ended_episode_of_lost_worker_resets_next(make, tmp_path):
    fns = [lambda: Scripted(2), lambda: Faulty("exit", once=str(tmp_path / "once"), length=9)]
    pool = make(fns, num_workers=1, on_error="restart", autoreset_mode=AutoresetMode.NEXT_STEP)
    pool.begin()
    pool.go()
    rows = pool.go()
    assert (rows.terminated.tolist(), rows.valid.tolist()) == ([True, False], [True, False])
    rows = pool.go()
    assert (rows.obs.tolist(), rows.valid.tolist()) == ([[0, 0], [1, 0]], [False, False])


@pytest.mark.pitfall("E5")
def test_a_reset_that_fails_is_tried_again_once(make, tmp_path):
    for fault in ("raise", "kill"):
        fns = fleet(fault, phase="reset", at=2, once=str(tmp_path / fault))
        pool = make(fns, num_workers=2, on_error="restart")
        pool.begin()
        np.testing.assert_array_equal(pool.begin()[2:], [[0, 0]] * 2 if fault == "kill" else [[0, 0], [1, 0]])
        assert pool.restarts == (2 if fault == "kill" else 1)


@pytest.mark.pitfall("E9")
def test_rebuilt_envs_get_new_reproducible_seeds(make):
    def lengths(seed):
        """Give the random lengths of the episodes that one environment begins, which raises at each second step."""
        drawn = []
        fns = [lambda: Faulty("raise", length=lambda rng: int(rng.integers(10, 10**9)))]
        pool = make(fns, num_workers=1, on_error="restart")
        pool.reset(np.arange(1), [seed], None)
        for _ in range(4):
            drawn += pool.get_attr("this_length", np.arange(1))
            for _ in range(2):
                rows = pool.go([0])
            assert rows.truncated.tolist() == [True]
        return drawn

    first = lengths(5)
    assert len(set(first)) == 4
    assert lengths(5) == first
    assert lengths(6)[1:] != first[1:]


@pytest.mark.parametrize("phase", ["constructor", "reset"])
def test_what_fails_while_it_is_built_anew_raises(make, tmp_path, phase):
    class Doomed(Scripted):
        """An environment that can be constructed and reset only once."""

        def __init__(self) -> None:
            super().__init__()
            self.first = not (tmp_path / "made").exists()
            (tmp_path / "made").touch()
            if not self.first and phase == "constructor":
                raise OSError("no more of these")

        def reset(self, **kwargs):
            if not self.first:
                raise OSError("no more of these")
            return super().reset(**kwargs)

        def step(self, action):
            os._exit(1)

    pool = make([Scripted, Doomed], num_workers=2, on_error="restart")
    pool.begin(envs=[0, 1])
    with pytest.raises(EnvFailure, match=r"environment 1 failed.*no more of these"):
        pool.go([0, 1])
    assert pool.rest() == [0]


# -- the parent ------------------------------------------------------------------------------------------------------


def listed(folder):
    """Returns the names of the files in a folder."""
    return {path.name for path in Path(folder).iterdir()}


@pytest.fixture
def script(tmp_path):
    """Starts scripts without a ``__main__`` guard, and ends their processes after the test."""
    started = []

    def start(text, *arguments, **options):
        started.append(launch(tmp_path, text, *arguments, **options))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def launch(tmp_path, text, *arguments, **options):
    path = tmp_path / "script.py"
    path.write_text("import json, os, sys, time\nimport numpy as np\nimport gymnasium as gym\n" + textwrap.dedent(text))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(part for part in sys.path if part)}
    return subprocess.Popen(
        [sys.executable, str(path), *arguments], env=env, stdout=subprocess.PIPE, text=True, **options
    )


STUCK = """
    import signal
    signal.signal(signal.SIGINT, signal.default_int_handler)  # who started the tests may have it ignored
    from faulty import Faulty
    from rlfast.env.process import ProcessBackend
    pool = ProcessBackend([lambda: Faulty("spin", at=1)] * 2, num_workers=2, context=sys.argv[1])
    pool.reset(np.arange(2), [None] * 2, None)
    pool.send(np.zeros(2, int), np.arange(2))
    print(json.dumps([child.pid for child in pool._workers.children]), flush=True)
"""


@pytest.mark.pitfall("E7")
@pytest.mark.parametrize("context", ["forkserver", "spawn", "fork"])
def test_workers_do_not_outlive_their_parent(script, context):
    before = listed("/dev/shm")
    parent = script(STUCK + "    pool.recv(2)\n", context)
    pids = json.loads(parent.stdout.readline())
    assert all(map(is_running, pids))
    parent.kill()
    parent.wait()
    wait_until(lambda: not any(map(is_running, pids)), "the end of the workers")
    wait_until(lambda: listed("/dev/shm") <= before, "the end of what other programs keep there for a moment")


@pytest.mark.pitfall("E7")
def test_a_parent_that_forgets_to_close_ends_in_time(script):
    parent = script(STUCK, "forkserver")
    pids = json.loads(parent.stdout.readline())
    assert parent.wait(PATIENCE) == 0
    wait_until(lambda: not any(map(is_running, pids)), "the end of the workers")
    assert parent.stdout.read() == ""


def test_ctrl_c_works_while_waiting(script):
    parent = script(
        STUCK
        + """
    try:
        print("here", flush=True)
        pool.recv(2)
    except KeyboardInterrupt:
        pool.close()
        print("closed")
    """,
        "forkserver",
        start_new_session=True,
    )
    parent.stdout.readline()
    assert parent.stdout.readline() == "here\n"
    time.sleep(0.3)
    os.killpg(parent.pid, signal.SIGINT)  # as a terminal does: to all of its processes
    assert parent.stdout.read() == "closed\n"
    assert parent.wait(PATIENCE) == 0


def test_forked_child_keeps_parents_workers(make):
    pool = make([Scripted] * 2, num_workers=2)
    pool.begin(envs=[0, 1])
    pid = os.fork()
    if pid == 0:
        try:
            pool.begin(envs=[0, 1])
        except RuntimeError as error:
            pool.close()
            os._exit(0 if "forked" in str(error) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert pool.go([0, 1]).obs[:, 1].tolist() == [1, 1]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are listed in /proc")
@pytest.mark.pitfall("E7")
@pytest.mark.parametrize("doorbell", ["futex", "pipe"])
def test_nothing_is_left_behind(make, doorbell):
    make([Scripted]).close()  # starts what all pools share
    gc.collect()  # what earlier tests left
    before, shm = listed("/proc/self/fd"), listed("/dev/shm")
    pool = make([Scripted] * 4, num_workers=2, doorbell=doorbell)
    pool.begin()
    pids = [child.pid for child in pool._workers.children]
    pool.go()
    pool.close()
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "the end of all, zombies too,")
    wait_until(lambda: listed("/dev/shm") <= shm, "the end of what other programs keep there for a moment")
    assert listed("/proc/self/fd") <= before
