"""Gymnasium's protocol, step by step beside Gymnasium's own in-process vector environment."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from rlfast.env import DummyVectorEnv
from scripted import Scripted

MODES = list(AutoresetMode)
BOX = spaces.Box(-np.inf, np.inf, (2,), np.float32)
SPACES = {
    "box": BOX,
    "dict": spaces.Dict({"a": BOX, "b": spaces.Dict({"c": spaces.Discrete(5), "d": spaces.MultiBinary(3)})}),
    "tuple": spaces.Tuple((BOX, spaces.Discrete(4))),
    "text": spaces.Text(5),
    "graph in a dict": spaces.Dict({"g": spaces.Graph(BOX, None), "x": BOX}),
}


class Any(gym.Env):
    """Draws everything it says from its generator: observations, rewards, ends and infos."""

    metadata = {"render_modes": [], "render_fps": 7}

    def __init__(self, observation, action) -> None:
        self.observation_space, self.action_space = observation, action
        self.wins = 0

    def _say(self):
        self.observation_space.seed(int(self.np_random.integers(1 << 30)))
        draw = self.np_random.random()
        info = {"draw": draw, "where": self.np_random.random(2).astype(np.float32)}
        if draw < 0.5:
            info |= {"rare": int(draw * 100), "nested": {"word": "low", "flag": draw < 0.2}}
        return self.observation_space.sample(), info

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        obs, info = self._say()
        return obs, info | ({} if options is None else {"level": options["level"]})

    def step(self, action):
        assert self.action_space.contains(action), action
        obs, info = self._say()
        draws = self.np_random.random(3)
        return obs, float(draws[0]), bool(draws[1] < 0.2), bool(draws[2] < 0.2), info


def assert_same(got, want, path="answer"):
    assert type(got) is type(want) or np.isscalar(want), (path, type(got), type(want))
    if isinstance(want, dict):
        assert list(got) == list(want) if path.endswith("obs") else got.keys() == want.keys(), path
        for key in want:
            assert_same(got[key], want[key], f"{path}[{key!r}]")
    elif isinstance(want, tuple | list):
        assert len(got) == len(want)
        for k, (one, other) in enumerate(zip(got, want, strict=True)):
            assert_same(one, other, f"{path}[{k}]")
    elif isinstance(want, np.ndarray) and want.dtype == object:
        assert got.dtype == object, path
        assert_same(list(got), list(want), path)
    elif isinstance(want, np.ndarray):
        assert (got.dtype, got.shape) == (want.dtype, want.shape), path
        np.testing.assert_array_equal(got, want, err_msg=path)
    else:
        assert got == want, path


def both(make, n, mode):
    theirs = SyncVectorEnv([make] * n, autoreset_mode=mode)
    ours = DummyVectorEnv([make] * n, autoreset_mode=mode)
    ours.action_space.seed(5)
    return ours, theirs


def run_beside(ours, theirs, steps):
    """Steps both with the same actions and compares all they say; how many episodes ended."""
    assert_same(ours.reset(seed=11), theirs.reset(seed=11))
    ended = 0
    for _ in range(steps):
        action = ours.action_space.sample()
        got, want = ours.step(action), theirs.step(action)
        for name, one, other in zip(("obs", "rew", "term", "trunc", "info"), got, want, strict=True):
            assert_same(one, other, name)
        done = want[2] | want[3]
        ended += done.sum()
        if ours.autoreset_mode is AutoresetMode.DISABLED and done.any():
            assert_same(
                ours.reset(options={"reset_mask": done, "level": 3}),
                theirs.reset(options={"reset_mask": done, "level": 3}),
            )
    return ended


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("space", SPACES)
def test_every_kind_of_observation_is_said_as_gymnasium_says_it(space, mode):
    ours, theirs = both(lambda: Any(SPACES[space], spaces.Discrete(3)), 4, mode)
    assert ours.observation_space == theirs.observation_space
    assert ours.single_observation_space == theirs.single_observation_space
    assert run_beside(ours, theirs, 60) > 20


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "action",
    [
        spaces.Box(-1, 1, (2, 3), np.float32),
        spaces.MultiDiscrete([2, 5]),
        spaces.MultiBinary(3),
        spaces.Discrete(3, start=-1),
        spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Tuple((BOX, spaces.MultiBinary(2)))}),
        spaces.Tuple((spaces.Discrete(2), spaces.Box(0, 1, (1,)))),
        spaces.Text(3),
    ],
    ids=str,
)
def test_every_kind_of_action_reaches_its_environment(action, mode):
    ours, theirs = both(lambda: Any(BOX, action), 3, mode)
    assert ours.action_space == theirs.action_space
    run_beside(ours, theirs, 10)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("id", ["CartPole-v1", "MountainCarContinuous-v0", "Blackjack-v1", "Taxi-v4"])
def test_real_environments(id, mode):
    ours, theirs = both(lambda: gym.make(id, max_episode_steps=20), 3, mode)
    assert run_beside(ours, theirs, 120) > 5
    assert_same(ours.metadata, theirs.metadata)
    assert ours.render_mode == theirs.render_mode
    assert_same(ours.get_attr("np_random_seed"), theirs.get_attr("np_random_seed"))
    assert [rng.random() for rng in ours.np_random] == [rng.random() for rng in theirs.np_random]


def test_infos_of_different_kinds_are_not_cut_to_the_first_ones():
    """Gymnasium makes the column an array of ints when the first environment says 1, and a third becomes zero."""
    envs = DummyVectorEnv([lambda: gym.make("FrozenLake-v1")] * 2, autoreset_mode="next-step")
    assert envs.reset(seed=0)[1]["prob"].tolist() == [1, 1]
    assert envs.step(np.array([1, 1]))[-1]["prob"].tolist() == pytest.approx([1 / 3, 1 / 3])
    infos = [1, 0.25]
    envs = DummyVectorEnv([lambda: Scripted(info={"p": infos.pop(0)})] * 2, autoreset_mode="next-step")
    assert envs.reset()[1]["p"].tolist() == [1.0, 0.25]


@pytest.mark.parametrize(
    ("given", "mode"),
    [
        (AutoresetMode.SAME_STEP, AutoresetMode.SAME_STEP),
        ("same-step", AutoresetMode.SAME_STEP),
        ("SAME_STEP", AutoresetMode.SAME_STEP),
        ("SameStep", AutoresetMode.SAME_STEP),
        ("next_step", AutoresetMode.NEXT_STEP),
        ("Disabled", AutoresetMode.DISABLED),
    ],
)
def test_modes_may_be_named(given, mode):
    envs = DummyVectorEnv([Scripted], autoreset_mode=given)
    assert envs.autoreset_mode is envs.metadata["autoreset_mode"] is mode


def test_an_unknown_mode_is_refused():
    with pytest.raises(ValueError, match=r"one of \['NEXT_STEP', 'SAME_STEP', 'DISABLED'\], got 'later'"):
        DummyVectorEnv([Scripted], autoreset_mode="later")


@pytest.mark.parametrize("mode", MODES)
def test_calls_and_attributes(mode):
    envs = DummyVectorEnv([lambda: Scripted(9)] * 2, autoreset_mode=mode)
    envs.reset()
    envs.step(np.zeros(2, int))
    assert envs.call("render") == envs.render() == ("frame 1", "frame 1")
    assert envs.call("step_count") == envs.get_attr("step_count") == (1, 1)
    envs.set_attr("length", [4, 5])
    assert envs.get_attr("length") == (4, 5)
    envs.set_attr("length", 6)
    assert envs.get_attr("length") == (6, 6)
    with pytest.raises(ValueError, match="got 3 values for 2 environments"):
        envs.set_attr("length", [1, 2, 3])


def test_a_partial_reset_keeps_what_the_others_show():
    envs = DummyVectorEnv([lambda: Scripted(9)] * 3, autoreset_mode="disabled")
    with pytest.raises(RuntimeError, match="the first reset\\(\\) must be of all"):
        envs.reset(options={"reset_mask": np.array([True, False, False])})
    envs.reset()
    envs.step(np.zeros(3, int))
    options = {"reset_mask": np.array([False, True, False])}
    obs, _ = envs.reset(options=options, seed=[1, 2, 3])
    assert obs.tolist() == [[0, 1], [1, 0], [0, 1]]
    assert list(options) == ["reset_mask"]  # the caller's dict is left alone
    assert [env.reset_kwargs[-1] for env in envs.get_attr("unwrapped")] == [
        {"seed": None, "options": None},
        {"seed": 2, "options": {}},
        {"seed": None, "options": None},
    ]


@pytest.mark.parametrize(
    ("mask", "error", "message"),
    [
        ([True, False], TypeError, "must be an array of bools, got <class 'list'>"),
        (np.array([1, 0]), TypeError, "an array of int64"),
        (np.array([True]), ValueError, "shape \\(2,\\)"),
        (np.array([False, False]), ValueError, "one True or more"),
    ],
)
def test_masks_that_make_no_sense(mask, error, message):
    envs = DummyVectorEnv([Scripted] * 2, autoreset_mode="disabled")
    envs.reset()
    with pytest.raises(error, match=message):
        envs.reset(options={"reset_mask": mask})
    envs.step([0, 0])  # still usable


@pytest.mark.parametrize("mode", MODES)
def test_each_protocol_refuses_the_arguments_of_the_other(mode):
    envs = DummyVectorEnv([Scripted] * 2, autoreset_mode=mode)
    with pytest.raises(TypeError, match="reset_mask"):
        envs.reset([0])
    envs.reset()
    with pytest.raises(TypeError, match="takes no id"):
        envs.step([0], [1])
    with pytest.raises(TypeError, match=r"takes seed and options, got \['level'\]"):
        envs.reset(level=3)
