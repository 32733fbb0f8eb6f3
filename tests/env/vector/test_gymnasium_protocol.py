"""Gymnasium's protocol, compared step by step with Gymnasium's in-process vector environment."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from env.beside import BOX, MODES, Telling, assert_same, both, run_beside
from rlfast.env import DummyVectorEnv
from scripted import Scripted


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
    ours, theirs = both(lambda: Telling(BOX, action), 3, mode)
    assert ours.action_space == theirs.action_space
    run_beside(ours, theirs, 10)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("id", ["CartPole-v1", "MountainCarContinuous-v0", "Blackjack-v1", "Taxi-v4"])
def test_real_environments(id, mode):
    ours, theirs = both(lambda: gym.make(id, max_episode_steps=20), 3, mode)
    assert run_beside(ours, theirs, 70) > 5
    assert_same(ours.metadata, theirs.metadata)
    assert ours.render_mode == theirs.render_mode
    assert_same(ours.get_attr("np_random_seed"), theirs.get_attr("np_random_seed"))
    assert [rng.random() for rng in ours.np_random] == [rng.random() for rng in theirs.np_random]


def test_mixed_infos_are_not_truncated():
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


@pytest.mark.parametrize("mode", MODES)
def test_protocols_refuse_each_others_arguments(mode):
    envs = DummyVectorEnv([Scripted] * 2, autoreset_mode=mode)
    with pytest.raises(TypeError, match="reset_mask"):
        envs.reset([0])
    envs.reset()
    with pytest.raises(TypeError, match="takes no id"):
        envs.step([0], [1])
    with pytest.raises(TypeError, match=r"takes seed and options, got \['level'\]"):
        envs.reset(level=3)
