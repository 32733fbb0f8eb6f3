"""Tests of all backends of environments."""

import itertools
import time
from traceback import format_exception_only

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode

from env.beside import MODES, SPACES, Telling, assert_same, both, run_beside
from rlfast.env import EnvFailure
from scripted import Scripted


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("space", SPACES)
def test_all_is_said_as_gymnasium_says_it(face, space, mode):
    ours, theirs = both(lambda: Telling(SPACES[space], spaces.MultiDiscrete([3, 2])), 3, mode, face)
    assert run_beside(ours, theirs, 30) > 8


# -- episodes --------------------------------------------------------------------------------------------------------


def short_cart_pole():
    return gym.make("CartPole-v1", max_episode_steps=3)


def rows_of(envs, steps):
    out = []
    for _ in range(steps):
        envs.send(np.zeros(envs.num_envs, np.int64))
        out.append(envs.recv())
    return out


@pytest.mark.pitfall("E1")
def test_next_step_reset_rows_are_not_stored(face):
    envs = face([short_cart_pole] * 2, autoreset_mode="next-step")
    envs.reset(seed=0)
    rows = rows_of(envs, 8)
    assert [None if one.valid is None else one.valid.tolist() for one in rows] == [
        *[None] * 3,
        [False, False],
        *[None] * 3,
        [False, False],
    ]
    for one in (rows[3], rows[7]):
        assert one.rew.tolist() == [0, 0]
        assert not one.done.any()
        assert (np.abs(one.obs) <= 0.05).all()  # CartPole's first observations
    assert [one.truncated.tolist() for one in rows] == [[k in {2, 6}] * 2 for k in range(8)]
    assert all(one.obs is one.obs_next for one in rows)


@pytest.mark.pitfall("E1")
def test_reset_row_action_is_unused(face):
    envs = face([lambda: Scripted(1)] * 2, autoreset_mode="next-step")
    envs.reset()
    for action in (1, 2, 3):
        envs.step(np.full(2, action))
    assert envs.get_attr("actions") == ([1, 3], [1, 3])


@pytest.mark.pitfall("E2")
def test_same_step_keeps_final_obs(face):
    envs = face([short_cart_pole] * 2, autoreset_mode="same-step")
    envs.reset(seed=0)
    rows = rows_of(envs, 8)
    alone = short_cart_pole()
    for k in range(2):
        alone.reset(seed=k)
        for one in rows:
            final, *_, over, _ = alone.step(0)
            np.testing.assert_array_equal(one.obs_next[k], final)
            assert one.truncated[k] == over
            shown = alone.reset()[0] if over else final
            np.testing.assert_array_equal(one.obs[k], shown)  # what the policy sees next
    assert all(one.valid is None for one in rows)
    assert [one.obs is one.obs_next for one in rows] == [k not in {2, 5} for k in range(8)]


@pytest.mark.pitfall("E2")
def test_same_step_keeps_the_final_info_apart(face):
    envs = face([lambda: Scripted(2, info=lambda step: {"at": step}), lambda: Scripted(3)], autoreset_mode="same-step")
    envs.reset()
    rows = rows_of(envs, 2)
    assert rows[0].final_info is None
    assert rows[1].final_info.dicts() == [{"at": 2}, {}]
    assert rows[1].info.dicts() == [{"at": 0}, {}]


@pytest.mark.pitfall("E3")
def test_disabled_partial_mask(face):
    envs = face([lambda: Scripted(1), lambda: Scripted(5)], autoreset_mode=AutoresetMode.DISABLED)
    envs.reset()
    obs, _, terminated, _, _ = envs.step(np.zeros(2, int))
    assert terminated.tolist() == [True, False]
    assert obs.tolist() == [[0, 1], [0, 1]]
    with pytest.raises(RuntimeError, match=r"environments \[0\] are in no episode"):
        envs.step(np.zeros(2, int))
    assert envs.get_attr("step_count") == (1, 1)
    obs, _ = envs.reset(options={"reset_mask": terminated})
    assert obs.tolist() == [[1, 0], [0, 1]]
    assert envs.step(np.zeros(2, int))[0].tolist() == [[1, 1], [0, 2]]


# -- order -----------------------------------------------------------------------------------------------------------


def test_any_of_them_in_any_order(face):
    envs = face([lambda: Scripted(9, actions=8)] * 4)
    envs.reset()
    *_, infos = envs.step([5, 6], id=[3, 1])
    assert [info["env_id"] for info in infos] == [3, 1]
    assert envs.get_env_attr("actions") == [[], [6], [], [5]]
    obs, _ = envs.reset([2, 0])
    assert obs.tolist() == [[1, 0], [1, 0]]
    envs.set_env_attr("length", 1, [3, 0])
    assert envs.get_env_attr("length", [0, 1, 2, 3]) == [1, 9, 9, 1]
    assert envs.get_env_attr("length", [1, 0]) == [9, 1]


class Sleepy(Scripted):
    """An environment whose steps take some time; it returns its number."""

    def __init__(self, number, seconds) -> None:
        super().__init__(10_000)
        self.number, self.seconds = number, seconds

    def _obs(self):
        return np.array([self.number, self.step_count], np.float32)

    def step(self, action):
        time.sleep(self.seconds)
        return super().step(action)


@pytest.mark.pitfall("E13")
@pytest.mark.parametrize("options", [{"wait_num": 1}, {"wait_num": 3}, {"timeout": 0.002}])
def test_answers_carry_env_id(face, options):
    n, m = 4, 12
    envs = face([lambda i=i: Sleepy(i, 0.0015 * i) for i in range(n)], **options)
    envs.reset()
    envs.send(np.zeros(n, int))
    steps = np.zeros(n, int)
    for _ in range(m * n):
        rows = envs.recv()
        np.testing.assert_array_equal(rows.obs[:, 0], rows.env_id)
        steps[rows.env_id] += 1
        np.testing.assert_array_equal(rows.obs[:, 1], steps[rows.env_id])
        assert set(envs.waiting_id).isdisjoint(rows.env_id.tolist())
        assert sorted(envs.waiting_id + envs.ready_id) == list(range(n))
        envs.send(np.zeros(len(rows.env_id), int), rows.env_id)
    while envs.waiting_id:
        rows = envs.recv()
        steps[rows.env_id] += 1
    assert steps.min() >= 1  # how many more, and when, depends on how busy the machine is


# -- seeds -----------------------------------------------------------------------------------------------------------


def roll_out(envs, seed):
    envs.reset(seed=seed)
    envs.action_space.seed(3)
    out = []
    for _ in range(40):
        obs, rew, terminated, truncated, _ = envs.step(envs.action_space.sample())
        out.append((obs.tobytes(), rew.tobytes(), terminated.tobytes(), truncated.tobytes()))
    return out


@pytest.mark.pitfall("E9")
def test_seeds_decide_everything(face):
    def pendulums():
        return face([lambda: gym.make("Pendulum-v1", max_episode_steps=10)] * 4, autoreset_mode="same-step")

    envs = pendulums()
    before = np.random.get_state()[1].copy()
    first = roll_out(envs, 7)
    assert first == roll_out(envs, 7) == roll_out(pendulums(), 7) == roll_out(pendulums(), [7, 8, 9, 10])
    assert first != roll_out(envs, 8)
    obs, _ = envs.reset(seed=7)
    again, _ = envs.reset()
    assert len({row.tobytes() for row in np.concatenate([obs, again])}) == 8  # also the second episode
    np.testing.assert_array_equal(np.random.get_state()[1], before)
    assert envs.get_attr("np_random_seed") == (7, 8, 9, 10)


@pytest.mark.pitfall("E9")
def test_subsets_are_seeded_by_their_numbers(face):
    envs = face([lambda: gym.make("CartPole-v1")] * 3)
    whole = envs.reset(seed=3)[0]
    np.testing.assert_array_equal(envs.reset([2, 0], seed=3)[0], whole[[2, 0]])
    np.testing.assert_array_equal(envs.reset(1, seed=[4])[0], whole[[1]])
    assert envs.seed(5) == [[5], [6], [7]]


@pytest.mark.pitfall("E9")
def test_async_in_order_equals_sync(face):
    envs = face([lambda: gym.make("CartPole-v1")] * 3, autoreset_mode="same-step")
    want = roll_out(envs, 1)
    envs.reset(seed=1)
    envs.action_space.seed(3)
    got = []
    for _ in range(40):
        envs.send(envs.action_space.sample())
        parts = []
        while envs.waiting_id:
            parts.append(envs.recv(1))
        order = np.argsort(np.concatenate([rows.env_id for rows in parts]))
        columns = ("obs", "rew", "terminated", "truncated")
        got.append(tuple(np.concatenate([getattr(rows, name) for rows in parts])[order].tobytes() for name in columns))
    assert got == want


class Counting(Scripted):
    def add(self, number, *, twice=False):
        self.total = getattr(self, "total", 0) + number * (2 if twice else 1)
        return self.total


def test_methods_are_called_where_the_environments_are(face):
    envs = face([Counting] * 2, autoreset_mode="same-step")
    assert envs.call("add", 3) == (3, 3)
    assert envs.call("add", 1, twice=True) == (5, 5)  # no copies: they remember
    assert envs.get_attr("total") == envs.call("total") == (5, 5)


# -- misuse ----------------------------------------------------------------------------------------------------------


@pytest.mark.pitfall("E8")
@pytest.mark.parametrize("mode", [None, *MODES])
def test_misuse_raises_and_changes_nothing(face, mode):
    envs = face([lambda: Scripted(9)] * 2, autoreset_mode=mode)
    with pytest.raises(RuntimeError, match="no environment is stepping: give actions"):
        envs.recv()
    envs.reset()
    envs.reset()  # twice is two episodes, not an error
    with pytest.raises(ValueError, match="got 3 actions for 2 environments: give one action for each"):
        envs.step([0, 0, 0])
    for single in (1, None, np.array(1), {"left": 1}):
        with pytest.raises(
            TypeError, match=r"Unable to iterate over the following elements.* give one action for each"
        ):
            envs.step(single)
    with pytest.raises(IndexError, match=r"distinct and within 0 and 1, got \[0, 0\]"):
        envs.send([0, 0], [0, 0])
    with pytest.raises(IndexError, match=r"got \[2\]"):
        envs.reset_rows(2)
    with pytest.raises(TypeError, match="must be an integer or a list of integers, got 'a'"):
        envs.reset_rows("a")
    with pytest.raises(ValueError, match="got 3 seeds for 2"):
        envs.reset(seed=[1, 2, 3])
    with pytest.raises(ValueError, match="got 3 seeds for 2"):
        envs.reset(seed=itertools.count())
    with pytest.raises(ValueError, match="got 10000000 seeds for 2"):
        envs.reset(seed=np.broadcast_to(np.int64(0), (10**7, 10**7)))  # nobody looks at all of them
    for seed in (["x", 1], "xy", 1.5, [0.5, 1]):
        with pytest.raises(TypeError, match="integer"):
            envs.reset(seed=seed)
    envs.send([0, 1])
    for again in (lambda: envs.send([0, 1]), lambda: envs.send([0], [1]), envs.reset_rows, envs.render):
        with pytest.raises(RuntimeError, match=r"are stepping: fetch their answers with recv\(\) or step\(None\)"):
            again()
    rows = envs.recv()
    assert rows.obs.tolist() == [[1, 1]] * 2
    assert envs.get_env_attr("actions") == [[0], [1]]
    assert envs.step([2, 3])[0].tolist() == [[1, 2]] * 2
    envs.close()
    envs.close()
    assert envs.is_closed
    for ask in (envs.reset, envs.recv, envs.render, lambda: envs.step([0, 0]), lambda: envs.seed(1)):
        with pytest.raises(RuntimeError, match="is closed: make a new one"):
            ask()


class Broken(Scripted):
    def step(self, action):
        if action == 3:
            raise ZeroDivisionError("no such thing")
        return super().step(action)

    def reset(self, *, seed=None, options=None):
        if options:
            raise KeyError("no such option")
        return super().reset(seed=seed)


@pytest.mark.parametrize("mode", [None, *MODES])
def test_raising_env_leaves_others_receivable(face, mode):
    envs = face([lambda: Broken(9)] * 3, autoreset_mode=mode)
    envs.reset()
    envs.send([0, 3, 1])
    with pytest.raises((ZeroDivisionError, EnvFailure), match="no such thing") as caught:
        envs.recv()
    assert "environment 1" in "".join(format_exception_only(caught.value))
    assert envs.waiting_id == [0, 2]
    rows = envs.recv()
    assert rows.env_id.tolist() == [0, 2]
    assert rows.obs.tolist() == [[0, 1], [0, 1]]
    for kind in (RuntimeError, AssertionError, ResetNeeded):  # ours, Gymnasium's vector environments', its wrappers'
        with pytest.raises(kind, match=r"environments \[1\] are in no episode"):
            envs.send([0, 0, 0])
    envs.reset_rows([1])
    assert envs.step([0, 0, 0])[0].tolist() == [[0, 2], [1, 1], [0, 2]]


@pytest.mark.parametrize("mode", [None, *MODES])
def test_a_step_that_raises_leaves_all_to_be_reset(face, mode):
    envs = face([lambda: Broken(9)] * 3, autoreset_mode=mode)
    envs.reset()
    with pytest.raises((ZeroDivisionError, EnvFailure)):
        envs.step([3, 0, 3])
    with pytest.raises(RuntimeError, match=r"environments \[0, 1, 2\] are in no episode"):
        envs.step([0, 0, 0])
    with pytest.raises((KeyError, EnvFailure), match="no such option"):
        envs.reset(options={"level": 1})
    assert envs.reset()[0].tolist() == [[1, 0]] * 3
    assert envs.step([0, 0, 0])[0].tolist() == [[1, 1]] * 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"wait_num": 3}, "within 1 and 2, the number of environments, got 3"),
        ({"wait_num": -1}, "got -1"),
        ({"timeout": 0}, "timeout must be positive"),
        ({"timeout": float("nan")}, "timeout must be positive"),
        ({"autoreset_mode": "never"}, "got 'never'"),
    ],
)
def test_bad_arguments(face, options, message):
    with pytest.raises(ValueError, match=message):
        face([Scripted] * 2, **options)
    with pytest.raises(ValueError, match="at least one environment"):
        face([])


def test_rows_are_never_overwritten(face):
    envs = face([lambda: Scripted(3)] * 2, autoreset_mode="same-step")
    envs.reset()
    rows = rows_of(envs, 40)
    assert [one.obs_next[0].tolist() for one in rows] == [[k // 3, k % 3 + 1] for k in range(40)]
    assert [one.terminated[1] for one in rows] == [k % 3 == 2 for k in range(40)]
    assert_same(rows[0].env_id, np.arange(2))
