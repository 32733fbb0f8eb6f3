"""The pool of worker processes gives the same results as environments in this process."""

import gc
import threading

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from faulty import SPACES, Sampled, Waiting
from machine import wait_until
from rlfast.env.backends.in_process import InProcess
from rlfast.env.process import ProcessBackend
from scripted import Scripted

MODES = list(AutoresetMode)


@pytest.fixture
def make():
    """Makes pools, and closes them."""
    pools = []

    def made(fns, **arguments):
        pools.append(ProcessBackend(fns, **arguments))
        return pools[-1]

    yield made
    for pool in pools:
        pool.close()


def ids(*envs):
    return np.array(envs, dtype=np.int64)


def same(ours, theirs):
    """Whether two nested values are the same, bit for bit, in the same types."""
    assert type(ours) is type(theirs)
    if isinstance(ours, dict):
        assert list(ours) == list(theirs)
        for key in ours:
            same(ours[key], theirs[key])
    elif isinstance(ours, tuple | list):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            same(one, other)
    elif isinstance(ours, np.ndarray):
        assert ours.dtype == theirs.dtype
        if ours.dtype == object:
            same(ours.tolist(), theirs.tolist())
        else:
            np.testing.assert_array_equal(ours, theirs)
    else:
        assert ours == theirs


def same_rows(ours, theirs):
    for name in ("env_id", "obs", "obs_next", "rew", "terminated", "truncated"):
        same(getattr(ours, name), getattr(theirs, name))
    assert ours.info.dicts() == theirs.info.dicts()
    finals = [None if rows.final_info is None else rows.final_info.dicts() for rows in (ours, theirs)]
    assert finals[0] == finals[1]
    valid = [np.ones(len(rows.env_id), bool) if rows.valid is None else rows.valid for rows in (ours, theirs)]
    np.testing.assert_array_equal(*valid)


def actions_of(space, count, rng):
    space.seed(int(rng.integers(2**31)))
    return collate([space.sample() for _ in range(count)])


def collate(samples):
    first = samples[0]
    if isinstance(first, dict):
        return {key: collate([sample[key] for sample in samples]) for key in first}
    if isinstance(first, tuple) and len({len(sample) for sample in samples}) == 1 and isinstance(first, tuple):
        return tuple(collate(list(part)) for part in zip(*samples, strict=True))
    if isinstance(first, np.ndarray | np.generic | int):
        return np.stack(samples)
    out = np.empty(len(samples), dtype=object)
    out[:] = samples
    return out


def compare(make, fns, mode, steps, **arguments):
    """Steps both ways, all environments or some, and compares everything."""
    theirs = InProcess(fns, mode, as_space=True)
    ours = make(fns, autoreset_mode=mode, **arguments)
    assert ours.single_observation_space == theirs.single_observation_space
    count, rng = len(fns), np.random.default_rng(5)
    everyone = np.arange(count)
    seeds = [100 + env for env in range(count)]
    obs, info = ours.reset(everyone, seeds, None)
    expected, expected_info = theirs.reset(everyone, seeds, None)
    same(obs, expected)
    assert info.dicts() == expected_info.dicts()
    over = np.zeros(count, bool)
    for step in range(steps):
        some = everyone if step % 3 else np.flatnonzero(rng.random(count) < 0.6)
        if mode is AutoresetMode.DISABLED and (ended := some[over[some]]).size:
            same(
                ours.reset(ended, [None] * len(ended), {"step": step})[0],
                theirs.reset(ended, [None] * len(ended), {"step": step})[0],
            )
            over[ended] = False
        if not some.size:
            continue
        actions = actions_of(theirs.single_action_space, len(some), rng)
        ours.send(actions, some)
        theirs.send(actions, some)
        rows, expected = ours.recv(len(some)), theirs.recv(len(some))
        same_rows(rows, expected)
        over[some] = rows.done


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("observation", ["box", "large", "dict", "nested", "mixed"])
def test_every_mode_and_kind_of_observation(make, mode, observation):
    compare(make, [lambda: Sampled(observation, "discrete")] * 4, mode, 40, num_workers=2)


@pytest.mark.parametrize("observation", sorted(SPACES.keys() - {"box", "large", "dict", "nested", "mixed"}))
def test_every_other_space_as_observation(make, observation):
    compare(make, [lambda: Sampled(observation, "discrete")] * 3, AutoresetMode.SAME_STEP, 20, num_workers=2)


@pytest.mark.parametrize("action", sorted(SPACES.keys() - {"large", "sequence", "scalar"}))
def test_every_space_as_action(make, action):
    compare(make, [lambda: Sampled("box", action)] * 3, AutoresetMode.NEXT_STEP, 20, num_workers=2)


@pytest.mark.pitfall("E9")
@pytest.mark.parametrize("workers", [1, 2, 4, 8])
@pytest.mark.parametrize("context", ["forkserver", "thread"])
def test_the_number_of_workers_changes_nothing(make, workers, context):
    np.random.seed(3)
    before = np.random.get_state()[1].copy()
    compare(make, [Sampled] * 8, AutoresetMode.SAME_STEP, 60, num_workers=workers, context=context)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # nobody drew from the global generator


@pytest.mark.parametrize("doorbell", ["futex", "pipe"])
@pytest.mark.parametrize("context", ["forkserver", "thread"])
def test_bells_by_pipe_do_as_well(make, doorbell, context):
    compare(make, [Sampled] * 4, AutoresetMode.SAME_STEP, 60, num_workers=2, doorbell=doorbell, context=context)


@pytest.mark.pitfall("E9")
def test_each_env_has_own_seed(make):
    pool = make([Sampled] * 4, num_workers=2)
    first, _ = pool.reset(np.arange(4), [7, 8, 9, 10], None)
    assert len(np.unique(first, axis=0)) == 4
    spaces = pool.get_attr("action_space", np.arange(4))
    drawn = []
    for seed, space in zip([7, 8, 9, 10], spaces, strict=True):
        mine = Sampled().action_space
        mine.seed(seed)
        drawn.append((space.sample(), mine.sample()))
    assert all(theirs == mine for theirs, mine in drawn)
    second, _ = pool.reset(np.arange(4), [None] * 4, None)
    assert not np.array_equal(first, second)
    again, _ = pool.reset(np.arange(4), [7, 8, 9, 10], None)
    np.testing.assert_array_equal(first, again)


def test_what_was_returned_is_never_written_again(make):
    for observation in ("box", "large"):
        pool = make(
            [lambda observation=observation: Sampled(observation)] * 3,
            num_workers=2,
            autoreset_mode=AutoresetMode.SAME_STEP,
        )
        pool.reset(np.arange(3), [1, 2, 3], None)
        held, copies = [], []
        for _ in range(30):  # more than there are banks to lend
            pool.send(np.zeros(3, int), np.arange(3))
            rows = pool.recv(3)
            held.append(rows)
            copies.append((rows.obs.copy(), rows.obs_next.copy(), rows.rew.copy()))
        for rows, (obs, obs_next, rew) in zip(held, copies, strict=True):
            np.testing.assert_array_equal(rows.obs, obs)
            np.testing.assert_array_equal(rows.obs_next, obs_next)
            np.testing.assert_array_equal(rows.rew, rew)
        assert len(np.unique([rows.obs.ravel()[:50] for rows in held], axis=0)) == 30


def test_large_observations_are_lent_and_given_back(make):
    pool = make([lambda: Sampled("large", chance=0)] * 3, num_workers=2)
    pool.reset(np.arange(3), [1, 2, 3], None)

    def step():
        pool.send(np.zeros(3, int), np.arange(3))
        return pool.recv(3).obs

    addresses = set()
    for _ in range(20):
        obs = step()
        assert not obs.flags.owndata
        assert obs.flags.writeable
        addresses.add(obs.ctypes.data)
    assert len(addresses) <= 2  # one is held while the next is written
    del obs
    held = [step() for _ in range(9)]
    assert [obs.flags.owndata for obs in held] == [False] * 8 + [True]  # all are lent out: copied
    view = held[3][1, 2:]
    address = held[3].ctypes.data
    held.clear()
    gc.collect()
    assert address not in {step().ctypes.data for _ in range(20)}  # a view of a view keeps it
    del view
    assert address in {obs.ctypes.data for obs in [step() for _ in range(8)]}


def test_a_pool_that_is_gone_leaves_its_arrays(make):
    pool = make([lambda: Sampled("large")] * 3)
    pool.reset(np.arange(3), [1, 2, 3], None)
    pool.send(np.zeros(3, int), np.arange(3))
    obs = pool.recv(3).obs
    copy = obs.copy()
    pool.close()
    del pool
    gc.collect()
    np.testing.assert_array_equal(obs, copy)


@pytest.mark.pitfall("E13")
@pytest.mark.parametrize("workers", [1, 3])
def test_recv_some_while_others_step(make, workers):
    fns = [lambda env=env: Scripted(length=1000, reward=float(env)) for env in range(6)]
    pool = make(fns, num_workers=workers)
    pool.reset(np.arange(6), [None] * 6, None)
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
    pool.reset(np.arange(3), [None] * 3, None)
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
        pool.send(np.zeros(3, int), np.arange(3))
        for got in pool.recv(3).info.dicts():
            wanted = info(step)
            assert got.keys() == wanted.keys()
            assert not got or (got["size"], got["nested"]) == (wanted["size"], wanted["nested"])
            np.testing.assert_array_equal(got.get("array", []), wanted.get("array", []))


def test_rewards_of_several_agents(make):
    class Two(Scripted):
        def step(self, action):
            obs, reward, *rest = super().step(action)
            return obs, np.array([reward, -reward]), *rest

    pool = make([Two] * 2, num_workers=1)
    pool.reset(np.arange(2), [None] * 2, None)
    pool.send(np.zeros(2, int), np.arange(2))
    np.testing.assert_array_equal(pool.recv(2).rew, [[1, -1], [1, -1]])


def test_attributes_rendering_and_options(make):
    pool = make([lambda: gym.wrappers.TimeLimit(Scripted(length=9, info={"a": 1}), 5)] * 3, num_workers=2)
    pool.reset(np.arange(3), [None, 4, None], {"x": 2})
    assert pool.get_attr("reset_kwargs", ids(2, 1)) == [
        [{"seed": None, "options": {"x": 2}}],
        [{"seed": 4, "options": {"x": 2}}],
    ]
    pool.set_attr("reward", [5.0, 7.0], ids(0, 2))
    assert pool.get_attr("reward", np.arange(3)) == [5.0, 1.0, 7.0]
    pool.send(np.zeros(3, int), np.arange(3))
    assert pool.recv(3).rew.tolist() == [5.0, 1.0, 7.0]
    assert pool.render(ids(1)) == ["frame 1"]
    with pytest.raises(RuntimeError, match=r"environment 1 failed in get_attr\(\): AttributeError: .*nothing"):
        pool.get_attr("nothing", ids(1))
    assert pool.get_attr("length", ids(1)) == [9]


@pytest.mark.pitfall("E8")
def test_misuse_leaves_envs_usable(make):
    pool = make([Scripted] * 2, num_workers=2)
    with pytest.raises(RuntimeError, match="0 environments are stepping"):
        pool.recv(1)
    pool.reset(np.arange(2), [None] * 2, None)
    pool.send(ids(0), ids(0))
    with pytest.raises(RuntimeError, match=r"environments \[0\] are stepping"):
        pool.send(ids(0, 0), np.arange(2))
    with pytest.raises(RuntimeError, match=r"environments \[0\] are stepping"):
        pool.reset(ids(0), [None], None)
    with pytest.raises(RuntimeError, match="2 answers, but 1 environments are stepping"):
        pool.recv(2)
    pool.recv(1)
    with pytest.raises(ValueError, match="got 3 actions for 2"):
        pool.send(np.zeros(3, int), np.arange(2))
    pool.send(np.zeros(2, int), np.arange(2))
    assert pool.recv(2).obs[:, 1].tolist() == [2, 1]  # none of the bad ones stepped anything
    pool.close()
    pool.close()
    with pytest.raises(RuntimeError, match="closed"):
        pool.send(np.zeros(2, int), np.arange(2))


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
    with pytest.raises(ValueError, match="at least one environment"):
        ProcessBackend([])


def test_spaces_of_each_environment_are_known(make):
    pool = make([Sampled, Sampled, Sampled, Scripted], num_workers=2)
    sampled, scripted = Sampled(), Scripted()
    assert pool.observation_spaces == [sampled.observation_space] * 3 + [scripted.observation_space]
    assert pool.action_spaces == [sampled.action_space] * 3 + [scripted.action_space]
    assert pool.single_observation_space == sampled.observation_space


def test_observations_must_fit_their_space(make):
    class Odd(Scripted):
        def step(self, action):
            obs, *rest = super().step(action)
            return {0: obs[:1], 1: obs.astype(str), 2: obs.astype(np.float64), 3: [1, 2]}[int(action)], *rest

    pool = make([Odd] * 2, num_workers=2)
    everyone = np.arange(2)
    for action, text in [(0, r"shape \(1,\) and dtype float32, but .* shape \(2,\)"), (1, "dtype <U")]:
        pool.reset(everyone, [None] * 2, None)
        pool.send(ids(2, action), everyone)
        with pytest.raises(RuntimeError, match=f"environment 1 failed in step.*{text}"):
            while True:
                pool.recv(1)
        while pool._stepping.any():
            pool.recv(1)
    pool.reset(everyone, [None] * 2, None)
    pool.send(ids(2, 3), everyone)
    obs = pool.recv(2).obs
    assert obs.dtype == np.float32
    assert obs.tolist() == [[2, 1], [1, 2]]
