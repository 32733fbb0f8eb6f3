"""What is of the pool of worker processes alone; `env/test_agreement.py` compares its results with others."""

import threading

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from env.beside import BOX, Telling
from faulty import Waiting
from machine import wait_until
from rlfast.env.process import ProcessBackend
from scripted import Scripted


def small():
    return Telling(BOX, spaces.Discrete(5))


def large():
    return Telling(spaces.Box(0, 255, (4, 84, 84), np.uint8), spaces.Discrete(5))


@pytest.mark.pitfall("E9")
def test_each_env_has_own_seed(make):
    pool = make([small] * 4, num_workers=2)
    first, _ = pool.reset(np.arange(4), [7, 8, 9, 10], None)
    assert len(np.unique(first, axis=0)) == 4
    spaces = pool.get_attr("action_space", np.arange(4))
    drawn = []
    for seed, space in zip([7, 8, 9, 10], spaces, strict=True):
        mine = small().action_space
        mine.seed(seed)
        drawn.append((space.sample(), mine.sample()))
    assert all(theirs == mine for theirs, mine in drawn)
    second = pool.begin()
    assert not np.array_equal(first, second)
    again, _ = pool.reset(np.arange(4), [7, 8, 9, 10], None)
    np.testing.assert_array_equal(first, again)


def test_what_was_returned_is_never_written_again(make):
    for kind in (small, large):
        pool = make([kind] * 3, num_workers=2, autoreset_mode=AutoresetMode.SAME_STEP)
        pool.begin([1, 2, 3])
        held, copies = [], []
        for _ in range(30):  # more than there are banks to lend
            rows = pool.go()
            held.append(rows)
            copies.append((rows.obs.copy(), rows.obs_next.copy(), rows.rew.copy()))
        for rows, (obs, obs_next, rew) in zip(held, copies, strict=True):
            np.testing.assert_array_equal(rows.obs, obs)
            np.testing.assert_array_equal(rows.obs_next, obs_next)
            np.testing.assert_array_equal(rows.rew, rew)
        assert len(np.unique([rows.obs.ravel()[:50] for rows in held], axis=0)) == 30


@pytest.mark.pitfall("E13")
@pytest.mark.parametrize("workers", [1, 3])
def test_recv_some_while_others_step(make, workers):
    fns = [lambda env=env: Scripted(length=1000, reward=float(env)) for env in range(6)]
    pool = make(fns, num_workers=workers)
    pool.begin()
    counts = np.zeros(6, int)
    idle = np.arange(6)
    for _ in range(200):
        pool.send(np.zeros(len(idle), int), idle)
        rows = pool.recv(2)
        idle = rows.env_id
        assert len(idle) >= 2
        counts[idle] += 1
        np.testing.assert_array_equal(rows.rew, idle)  # each row is of the environment it names
        np.testing.assert_array_equal(rows.obs[:, 1], counts[idle])  # and of its newest step
    if workers == 1:  # it has turns; which of several processes the machine lets run is its own affair
        assert counts.min() > 400 / 6 / 2
    pool.send(np.zeros(len(idle), int), idle)
    wait_until(lambda: len(pool._slab.answered()) == 6)
    assert pool.recv(2).env_id.tolist() == [0, 1, 2, 3, 4, 5]  # whoever has answered is taken, so nobody starves


def test_a_timeout_gives_what_is_there(make, tmp_path):
    gate = tmp_path / "gate"
    pool = make([Scripted, lambda: Waiting(gate), Scripted], num_workers=3)
    pool.begin()
    pool.send(np.zeros(3, int), np.arange(3))
    wait_until(lambda: len(pool._slab.answered()) == 2)
    assert pool.recv(3, 0.01).env_id.tolist() == [0, 2]
    opener = threading.Timer(0.2, gate.touch)
    opener.start()
    assert pool.recv(1, 0.01).env_id.tolist() == [1]  # at least one, however long it takes
    opener.join()


def test_infos_of_any_size_and_kind_arrive(make):
    def info(step):
        return {"size": "x" * (7**step), "nested": {"lives": step}, "array": np.arange(step)} if step % 2 else {}

    pool = make([lambda: Scripted(length=8, info=info)] * 3, num_workers=2)
    assert pool.reset(np.arange(3), [None] * 3, None)[1].dicts() == [{}] * 3
    for step in range(1, 8):
        for got in pool.go().info.dicts():
            wanted = info(step)
            assert got.keys() == wanted.keys()
            assert not got or (got["size"], got["nested"]) == (wanted["size"], wanted["nested"])
            np.testing.assert_array_equal(got.get("array", []), wanted.get("array", []))


def test_attributes_rendering_and_options(make):
    pool = make([lambda: gym.wrappers.TimeLimit(Scripted(length=9, info={"a": 1}), 5)] * 3, num_workers=2)
    pool.begin([None, 4, None], options={"x": 2})
    assert pool.get_attr("reset_kwargs", np.array([2, 1])) == [
        [{"seed": None, "options": {"x": 2}}],
        [{"seed": 4, "options": {"x": 2}}],
    ]
    pool.set_attr("reward", [5.0, 7.0], np.array([0, 2]))
    assert pool.get_attr("reward", np.arange(3)) == [5.0, 1.0, 7.0]
    assert pool.go().rew.tolist() == [5.0, 1.0, 7.0]
    assert pool.render(np.array([1])) == ["frame 1"]
    with pytest.raises(RuntimeError, match=r"environment 1 failed in get_attr\(\): AttributeError: .*nothing"):
        pool.get_attr("nothing", np.array([1]))
    assert pool.get_attr("length", np.array([1])) == [9]


def test_a_closed_pool_says_so(make):
    pool = make([Scripted] * 2, num_workers=2)
    pool.close()
    pool.close()
    with pytest.raises(RuntimeError, match="closed"):
        pool.go()


@pytest.mark.pitfall("E8")
def test_arguments_are_checked_before_anything_starts():
    for arguments, text in [
        ({"num_workers": 0}, "num_workers must be at least 1"),
        ({"step_timeout": 0.0}, "step_timeout must be positive"),
        ({"on_error": "ignore"}, "on_error must be"),
        ({"context": "carrier pigeon"}, "context must be one of forkserver"),
        ({"doorbell": "gong"}, "doorbell must be"),
    ]:
        with pytest.raises(ValueError, match=text):
            ProcessBackend([Scripted], **arguments)


def test_spaces_of_each_environment_are_known(make):
    pool = make([small, small, small, Scripted], num_workers=2)
    sampled, scripted = small(), Scripted()
    assert pool.observation_spaces == [sampled.observation_space] * 3 + [scripted.observation_space]
    assert pool.action_spaces == [sampled.action_space] * 3 + [scripted.action_space]
    assert pool.single_observation_space == sampled.observation_space
