"""Environments of which workers step a part, and this process the others."""

import os
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from faulty import Faulty, Sampled
from machine import PATIENCE
from rlfast.env import DummyVectorEnv, SubprocVectorEnv
from scripted import Scripted

ROWS = ("obs_next", "rew", "terminated", "truncated")


class Where(Scripted):
    """Tells its process, and waits in a step until a file is gone.

    :param until_gone: the file; None for no wait.
    """

    def __init__(self, until_gone=None, **scripted):
        super().__init__(**scripted)
        self.pid, self.until_gone = os.getpid(), until_gone

    def step(self, action):
        while self.until_gone is not None and Path(self.until_gone).exists():
            time.sleep(1e-3)
        return super().step(action)


def split(env_fns, **options):
    return SubprocVectorEnv(env_fns, placement="split", **{"num_workers": 2} | options)


@pytest.mark.parametrize(
    ("count", "shares", "here"), [(5, 2, 2), (4, 3, 1), (8, 3, 2), (2, 9, 1), (1, 2, 1), (3, 1, 3)]
)
def test_this_process_steps_the_share_of_one_worker(count, shares, here):
    with split([Where] * count, num_workers=shares) as envs:
        pids = envs.get_env_attr("pid")
        assert [pid == os.getpid() for pid in pids] == [False] * (count - here) + [True] * here
        assert len(set(pids)) == min(shares, count)
        assert envs.placement == ("in-process" if here == count else "split")
        assert envs.reset()[0].tolist() == [[0, 0]] * count


def test_results_equal_dummy():
    rng = np.random.default_rng(0)
    fns = [lambda k=k: Scripted(length=3 + k, info=lambda step, k=k: {"at": step, "env": k}) for k in range(5)]
    both = [split(fns), DummyVectorEnv(fns)]
    for envs in both:
        envs.reset(seed=[3, None, 5, 6, 7])
    for _ in range(60):
        ids = rng.permutation(5)[: rng.integers(1, 6)]
        found = []
        for envs in both:
            envs.send(np.arange(len(ids)) % 4, ids)
            rows = envs.recv(len(ids))
            place = np.argsort(rows.env_id)
            found.append([rows.env_id[place].tolist(), *(getattr(rows, name)[place].tolist() for name in ROWS)])
            found[-1].append([rows.info.dicts()[k] for k in place])
        assert found[0] == found[1]
        over = rng.permutation([i for i, ended in zip(found[0][0], found[0][3], strict=True) if ended])
        if len(over):
            first = [envs.reset(over, options={"to": len(over)}) for envs in both]
            assert first[0][0].tolist() == first[1][0].tolist()
            assert first[0][1].tolist() == first[1][1].tolist()
    for name in ("actions", "reset_kwargs", "episode"):
        assert both[0].get_env_attr(name, [3, 0, 4]) == both[1].get_env_attr(name, [3, 0, 4])
    for envs in both:
        envs.close()


def test_rows_of_all_environments_are_in_order():
    with split([lambda k=k: Scripted(reward=float(k)) for k in range(5)]) as envs:
        envs.reset()
        for _ in range(2):
            envs.send([0] * 5)
            rows = envs.recv()
            assert rows.env_id.tolist() == rows.rew.tolist() == [0, 1, 2, 3, 4]
            assert rows.obs is rows.obs_next


def test_what_each_environment_gets_reaches_it():
    with split([Where] * 5) as envs:
        envs.reset(seed=[4, None, 6, 7, 8], id=[3, 1, 0, 4, 2])
        assert [one[-1]["seed"] for one in envs.get_env_attr("reset_kwargs")] == [6, None, 8, 4, 7]
        envs.set_env_attr("mark", 5, id=[4, 1])
        assert envs.get_env_attr("mark", id=[4, 1]) == [5, 5]
        envs.step([1, 2], id=[4, 0])
        assert envs.get_env_attr("actions") == [[2], [], [], [], [1]]
        assert list(envs.render()) == ["frame 1", "frame 0", "frame 0", "frame 0", "frame 1"]
        envs.seed([1, 2, 3, 4, 5])
        assert [one[-1]["seed"] for one in envs.get_env_attr("reset_kwargs")] == [1, 2, 3, 4, 5]
    with split([Where] * 4, autoreset_mode="disabled") as envs:
        envs.reset(seed=1)
        envs.set_attr("mark", [1, 2, 3, 4])
        assert envs.get_attr("mark") == (1, 2, 3, 4)
        assert envs.call("render") == ("frame 0",) * 4
        with pytest.raises(ValueError, match="use `step` directly"):
            envs.call("step", 0)


def test_states_return_to_their_environments():
    with split([Scripted] * 4) as envs:
        envs.reset()
        envs.step([0, 0, 0], id=[0, 2, 3])
        envs.step([0], id=[3])
        states = envs.get_state()
        envs.step([0] * 4)
        envs.set_state(states)
        assert envs.step([0] * 4)[0][:, 1].tolist() == [2, 1, 2, 3]


@pytest.mark.parametrize("where", [1, 4])
def test_failure_names_env_and_others_answer(where):
    fns = [lambda k=k: Faulty("raise" if k == where else None, at=2) for k in range(5)]
    with split(fns) as envs:
        envs.reset()
        envs.step([0] * 5)
        envs.send([0] * 5)
        with pytest.raises(ZeroDivisionError) as error:
            envs.recv()
        assert error.value.env_id == where
        rows = envs.recv()
        assert sorted(rows.env_id.tolist()) == [k for k in range(5) if k != where]
        assert rows.obs[:, 1].tolist() == [2] * 4
        assert envs.waiting_id == []
        obs, _ = envs.reset([where])
        assert obs[:, 1].tolist() == [0]
        assert envs.step([0] * 5)[0][:, 1].tolist() == [1 if k == where else 3 for k in range(5)]


def test_failed_local_reset_keeps_workers_usable(tmp_path):
    faulty = partial(Faulty, "raise", "reset", at=2, once=str(tmp_path / "struck"))
    with split([Scripted, Scripted, Scripted, faulty]) as envs:
        envs.reset()
        with pytest.raises(ZeroDivisionError) as error:
            envs.reset()
        assert error.value.env_id == 3
        assert envs.reset()[0].tolist() == [[2, 0]] * 3 + [[1, 0]]


@pytest.mark.parametrize("timeout", [None, 0.01])
def test_local_answers_do_not_wait_for_workers(tmp_path, timeout):
    (tmp_path / "busy").touch()
    fns = [lambda: Where(str(tmp_path / "busy")), Scripted, Where, Scripted]
    with split(fns, num_workers=4, wait_num=1) as envs:
        envs.reset()
        envs.send([0] * 4)
        done = set()
        while len(done) < 3:
            rows = envs.recv(1 if timeout is None else 4 - len(done), timeout)
            done.update(rows.env_id.tolist())
            assert 0 not in done
            assert envs.waiting_id == [k for k in range(4) if k not in done]
        (tmp_path / "busy").unlink()
        assert envs.recv(timeout=PATIENCE).env_id.tolist() == [0]


def test_a_reset_may_be_begun_before_it_is_awaited():
    with split([Scripted] * 4, autoreset_mode="same-step") as envs:
        for episode in range(3):
            envs.reset_async(seed=episode)
            obs, _ = envs.reset_wait(timeout=PATIENCE)
            assert obs.tolist() == [[episode, 0]] * 4
            envs.step_async(np.zeros(4, np.int64))
            assert envs.step_wait(timeout=PATIENCE)[0].tolist() == [[episode, 1]] * 4
        assert [one[-1]["seed"] for one in envs.get_attr("reset_kwargs")] == [2, 3, 4, 5]


@pytest.mark.parametrize(
    ("fns", "options", "says"),
    [
        ([lambda: Sampled("text")] * 2, {}, "arrays of the same shapes and dtypes, got Text"),
        ([Scripted, lambda: Scripted(dict_obs=True)], {}, "got different spaces"),
        ([Scripted] * 2, {"step_timeout": 1.0}, "in processes of their own"),
        ([Scripted] * 2, {"on_error": "restart"}, "in processes of their own"),
    ],
)
def test_what_cannot_be_split_is_refused(fns, options, says):
    with pytest.raises(ValueError, match=says):
        split(fns, **options)


def test_failed_local_constructor_ends_workers(monkeypatch):
    ended = []
    own = "rlfast.env.process.placement.ProcessBackend.close"
    monkeypatch.setattr(own, lambda backend: (ended.append(backend), backend._end()))
    with pytest.raises(ZeroDivisionError):
        split([Scripted, lambda: Faulty("raise", "constructor")])
    assert len(ended) == 1
