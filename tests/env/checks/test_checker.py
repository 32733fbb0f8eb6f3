import os
import re
import warnings
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rlfast.cli.main import main
from rlfast.env import check_env
from rlfast.env.checks.checker import examine_env, misfit


class Walk(gym.Env):
    """A random walk of ten steps that passes every check; subclasses break one thing each."""

    observation_space = spaces.Box(-50, 50, (2,), np.float32)
    action_space = spaces.Discrete(2)
    length = 10

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.x = 0, self.np_random.uniform(-1, 1)
        return self.obs(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.t += 1
        self.x += self.np_random.uniform(-1, 1)
        return self.obs(), self.reward(), False, self.t == self.length, {}

    def obs(self):
        return np.array([self.t, self.x], np.float32)

    def reward(self):
        return 1.0


def walk(*bases, **attributes):
    """A walk that differs from a good one in these attributes."""
    return type("Broken", (*bases, Walk), attributes)


def late(value):
    """Multiplies the observation of step 7."""
    return lambda env: Walk.obs(env) * (value if env.t == 7 else 1)


def ending(place, value):
    """Replaces a part of what a step returns."""

    def step(env, action):
        answer = list(Walk.step(env, action))
        answer[place] = value
        return tuple(answer)

    return step


LongObs = walk(obs=lambda env: np.zeros(3, np.float32))
NaNReward = walk(reward=lambda env: np.nan if env.t == 7 else 1.0)


class Raises(Walk):
    def step(self, action):
        if self.t == 7:
            raise ZeroDivisionError("no wind")
        return super().step(action)


class OneReset(Walk):
    def reset(self, **kwargs):
        if getattr(self, "t", 0) == self.length:
            raise RuntimeError("only one episode")
        return super().reset(**kwargs)


class OnlyAtHome(Walk):
    def __init__(self, pid):
        if os.getpid() != pid:
            raise OSError("no screen here")


class WorkerSpecific(Walk):
    def __init__(self, pid):
        self.pid = pid

    def reward(self):
        return float(os.getpid() == self.pid)


class Overwriting(Walk):
    def obs(self):
        if not hasattr(self, "array"):
            self.array = np.zeros(2, np.float32)
        self.array[:] = super().obs()
        return self.array


class TwoFaults(Walk):
    obs = late(100)

    def reset(self, **kwargs):
        obs, info = super().reset(**kwargs)
        return obs.astype(np.float64), info


class Warns(Walk):
    def obs(self):
        warnings.warn("\x1b[33mWARN: low battery\x1b[0m", UserWarning, stacklevel=2)
        return super().obs()


Dice = walk(obs=lambda env: np.random.default_rng().uniform(-1, 1, 2).astype(np.float32))


def findings(env, **kwargs):
    report = examine_env(env, steps=60, **kwargs)
    return report.errors, report.warnings


def test_a_good_environment_has_no_findings():
    report = check_env(Walk, steps=60)
    assert (report.errors, report.warnings) == ([], [])
    assert "60 random steps, 6 episodes of 10.0 steps on average, with returns from 10 to 10" in report.facts
    assert "SubprocVectorEnv gives the same 60 steps" in report.facts


@pytest.mark.parametrize(
    ("env", "words"),
    [
        (walk(obs=lambda env: Walk.obs(env).astype(np.float64)), ["float64", "float32"]),
        (LongObs, ["(3,)", "(2,)"]),
        (walk(obs=late(100)), ["step 7:", "700", "outside"]),
        (walk(obs=late(np.nan)), ["step 7:", "NaN"]),
        (walk(obs=lambda env: [0.0, 0.0]), ["list"]),
        (NaNReward, ["step 7:", "reward", "nan"]),
        (walk(reward=lambda env: "much"), ["'much'"]),
        (walk(step=ending(2, 0)), ["terminated is 0", "bool"]),
        (walk(step=ending(4, None)), ["info", "NoneType"]),
        (walk(step=lambda env, action: Walk.step(env, action)[:4]), ["not enough values"]),
        (Raises, ["step 8:", "ZeroDivisionError: no wind"]),
        (OneReset, ["reset", "only one episode"]),
        (walk(observation_space=None), ["observation_space is None"]),
        (
            walk(observation_space=spaces.Tuple([spaces.Discrete(20)] * 2), obs=lambda env: (env.t, env.t)),
            ["Tuple", "FlattenObservation"],
        ),
        (partial(OnlyAtHome, os.getpid()), ["SubprocVectorEnv", "no screen here"]),
        (partial(WorkerSpecific, os.getpid()), ["SubprocVectorEnv", "step 1"]),
    ],
)
def test_errors_name_what_is_wrong(env, words):
    errors, _ = findings(env)
    assert any(all(word in error for word in words) for error in errors), errors
    with pytest.raises(ValueError, match="cannot be trained on") as raised:
        check_env(env, steps=60)
    assert all(word in str(raised.value) for word in words)


@pytest.mark.parametrize(
    ("env", "words"),
    [
        (
            walk(length=None, obs=lambda env: np.zeros(2, np.float32)),
            ["no episode ended within 60 steps", "max_episode_steps"],
        ),
        (walk(action_space=spaces.Box(-np.inf, np.inf, (1,))), ["no finite bounds", "action_scaling=False"]),
        (
            walk(observation_space=spaces.Box(-1e4, 1e4, (2,)), obs=lambda env: np.full(2, 5000, np.float32)),
            ["observations reach 5000", "normalize"],
        ),
        (
            walk(observation_space=spaces.Box(0, 255, (2,), np.uint8), obs=lambda env: np.array([0, 200], np.uint8)),
            ["observations reach 200"],
        ),
        (Overwriting, ["step 1 changed the observation", "return a copy"]),
        (Warns, ["low battery"]),
    ],
)
def test_warnings_name_what_to_do(env, words):
    errors, warned = findings(env)
    assert errors == []
    assert any(all(word in text for word in words) for text in warned), warned


def test_bytes_of_pictures_are_not_large():
    picture = {
        "observation_space": spaces.Box(0, 255, (2, 2), np.uint8),
        "obs": lambda env: np.full((2, 2), 200, np.uint8),
    }
    assert not any("observations reach" in text for text in findings(walk(**picture))[1])


class Hand(gym.Env):
    """Cards, of which each may be played once: one at a time, or two."""

    def __init__(self, two):
        self.action_space = spaces.MultiDiscrete([5, 4], start=[1, 0]) if two else spaces.Discrete(5, start=1)
        self.mask = np.ones(9 if two else 5, np.int8)
        parts = {"obs": spaces.Box(0, 1, self.mask.shape, np.float32), "mask": spaces.MultiBinary(len(self.mask))}
        self.observation_space = spaces.Dict(parts)
        self.played = set()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.mask[:] = 1
        self.mask[self.np_random.integers(5)] = 0
        return self.seen(), {}

    def step(self, action):
        self.played.add(tuple(np.ravel(action).tolist()))
        places = np.ravel(action - getattr(self.action_space, "start", 0)) + [0, 5][: np.size(action)]
        assert self.mask[places].all(), "this card was played"
        self.mask[places] = 0
        return self.seen(), 1.0, bool(self.mask[:5].sum() == 2), False, {}

    def seen(self):
        return {"obs": self.mask.astype(np.float32), "mask": self.mask.copy()}


@pytest.mark.parametrize("two", [False, True])
def test_legal_actions_are_played(two):
    report = check_env(lambda: Hand(two), steps=200)
    assert not report.warnings, report
    env = Hand(two)
    check_env(env, steps=200)
    assert len(env.played) == (20 if two else 5)


def test_rows_that_do_not_repeat_are_found():
    errors, warned = findings(Dice)
    assert errors == []
    assert any("runs will not repeat" in text for text in warned), warned


def test_each_kind_of_error_is_reported_once():
    errors, _ = findings(LongObs)
    assert sum("has shape (3,)" in error for error in errors) == 1


def test_all_observation_errors_are_reported():
    errors, _ = findings(TwoFaults)
    assert any("reset: the observation has dtype" in error for error in errors), errors
    assert any("step 7: the observation has values" in error for error in errors), errors


def test_an_environment_that_cannot_be_made_is_an_error():
    def broken():
        raise RuntimeError("no such\nmotor")

    assert findings(broken)[0] == ["making the environment raised RuntimeError: no such motor"]


def test_what_is_wrong_is_not_called_ok():
    report = examine_env(NaNReward, steps=60)
    assert not any("nan" in fact for fact in report.facts)


def test_warnings_are_findings_without_colours():
    _, found = findings(Warns)
    assert found.count("low battery") == 1


def test_an_instance_is_played_and_left_open():
    env = Walk()
    closed = []
    env.close = lambda: closed.append(True)
    report = check_env(env, steps=60)
    assert not any("SubprocVectorEnv" in fact for fact in report.facts)
    assert not closed


@pytest.mark.parametrize("wrong", [3, lambda: 3])
def test_only_environments_are_taken(wrong):
    with pytest.raises(TypeError, match=r"gymnasium\.Env"):
        check_env(wrong)


def test_steps_must_be_positive():
    with pytest.raises(ValueError, match="positive, got 0"):
        check_env(Walk, steps=0)


@pytest.mark.parametrize(
    ("space", "value", "text"),
    [
        (spaces.Discrete(3, start=2), 1, "1 is not in Discrete(3, start=2)"),
        (spaces.Dict(a=spaces.Discrete(2)), {"a": 5}, "at 'a' 5 is not in Discrete(2)"),
        (spaces.Dict(a=spaces.Discrete(2)), {"b": 1}, "has the parts ['b'], and its space ['a']"),
        (spaces.Dict(a=spaces.Discrete(2)), [1], "is a list, and its space is Dict('a': Discrete(2))"),
        (spaces.Tuple([spaces.Discrete(2)]), (1, 1), "has the parts [0, 1], and its space [0]"),
        (spaces.Tuple([spaces.Box(0, 1, (2,))]), (np.zeros(3, np.float32),), "at 0 has shape (3,), and its space (2,)"),
        (spaces.Dict(a=spaces.Discrete(2)), {"a": 1}, ""),
        (spaces.Text(2), "ab", ""),
    ],
)
def test_misfit_names_the_difference(space, value, text):
    assert misfit(space, value) == text


def test_command_prints_findings(capsys):
    assert main(["check-env", "CartPole-v1", "--steps", "100"]) == 0
    assert "ok       SubprocVectorEnv gives the same 100 steps" in capsys.readouterr().out
    gym.register("rlfast-test/Raises-v0", Raises)
    assert main(["check-env", "rlfast-test/Raises-v0", "--steps", "100"]) == 1
    assert "error    step 8: step(" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("action_space", "said"),
    [
        (spaces.Discrete(2), r"ok       rlfast train has algorithms for it: a2c, c51, .*, dqn, .*, ppo, .*, trpo$"),
        (
            spaces.Box(-1, 1, (2, 2)),
            "ok       rlfast train has algorithms for it: bcq, cql, [^a]*, ddpg, .*, sac, .*, xqc$",
        ),
        (
            spaces.MultiBinary(2),
            r"warning  no algorithm of rlfast train .* \(PPO needs .*those of rlfast.* are MultiBinary\(2\)\)$",
        ),
        (
            spaces.Box(-np.inf, np.inf, (2,)),
            r"warning  no algorithm of rlfast train .* \(PPO needs actions with finite bounds",
        ),
    ],
)
def test_the_command_names_the_algorithms(capsys, action_space, said):
    gym.register("rlfast-test/Walk-v0", walk(action_space=action_space))
    assert main(["check-env", "rlfast-test/Walk-v0", "--steps", "100"]) == 0
    assert re.search(said, capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize(
    "arguments", [["NoSuch-v0"], ["Catch-v0"], ["CartPole-v1", "--steps", "0"], ["no_such_module:Env-v0"]]
)
def test_the_command_refuses_bad_arguments_in_one_line(arguments, capsys):
    assert main(["check-env", *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1
