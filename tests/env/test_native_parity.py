"""Native environments beside Gymnasium's, with the same seeds and actions: everything they answer is the same.

Observations, rewards, flags and infos are compared to the bit. That needs a NumPy which takes the sines of doubles from
the C library, as ``math`` does and as we do. Where it has code of its own (on processors with AVX-512, unless
``NPY_DISABLE_CPU_FEATURES`` names that), sines differ in the last bit and trajectories drift apart: there, environments
that take them through NumPy are compared over short episodes, with a tolerance.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.toy_text.frozen_lake import generate_random_map
from gymnasium.vector import AutoresetMode

from rlfast.env.native import NativeVectorEnv

NUM_ENVS = 16
RESEEDED = 8
"""One of so many resets comes with a seed."""

_angles = np.random.default_rng(0).uniform(-8, 8, 20_000)
SINES_ARE_SHARED = all(np.sin(angle) == math.sin(angle) and np.cos(angle) == math.cos(angle) for angle in _angles)
SHORT = 15
"""Steps of an episode where sines differ."""

Policy = Callable[[np.ndarray, dict[str, Any], int, np.random.Generator], Any]
"""Chooses an action from the observation, the info, the number of the episode, and chance."""


def at_random(n: int) -> Policy:
    return lambda obs, info, episode, rng: rng.integers(n)


def balancing(obs, info, episode, rng):
    return int(obs[2] + obs[3] > 0) if episode % 3 else rng.integers(2)


def swinging(velocity: int) -> Policy:
    """Pushes in the direction of the velocity."""
    return lambda obs, info, episode, rng: (2 if obs[velocity] >= 0 else 0) if episode % 3 else rng.integers(3)


def throttling(obs, info, episode, rng):
    """Draws forces inside their bounds, on them and outside of them."""
    if episode % 3 == 0:
        return np.array([rng.uniform(-1.4, 1.4)], np.float32)
    return np.array([math.copysign(rng.choice([0.9, 1.0, 1.2, 3.0]), obs[1])], np.float32)


def turning(obs, info, episode, rng):
    if episode % 2:
        return np.array([math.copysign(2.5, obs[2])], np.float32)
    return np.array([rng.uniform(-2.4, 2.4)], np.float32)


def driving(obs, info, episode, rng):
    """Draws mostly actions that change the state, and sometimes rare ones."""
    (useful,) = np.nonzero(info["action_mask"])
    if not episode % 3 or rng.random() < 0.1:
        return rng.integers(6)
    return useful[-1] if useful[-1] > 3 and rng.random() < 0.8 else rng.choice(useful)


def along_the_cliff(obs, info, episode, rng):
    """Walks to the goal in 13 steps, or randomly."""
    if episode % 2:
        return 0 if obs == 36 else 2 if obs % 12 == 11 else 1
    return rng.choice([0, 1, 1, 1, 2, 3])


def across_the_ice(obs, info, episode, rng):
    """Moves at random, and sometimes to the left, where nothing happens."""
    return 0 if episode % 4 == 0 else rng.integers(4)


@dataclass
class Case:
    id: str
    policy: Policy
    ends: tuple[bool, bool] = (True, True)
    """Whether some episodes must be terminated, and some truncated, within some thousand steps."""
    kwargs: dict[str, Any] = field(default_factory=dict)
    numpy_sines: bool = False
    """Gymnasium's takes sines of doubles through NumPy."""
    cut: int | None = None
    """Steps after which an episode is left, where there is no time limit."""

    def __str__(self) -> str:
        return "-".join([self.id, *(f"{name}={value}" for name, value in self.kwargs.items())])


def limited(steps: int, **kwargs: Any) -> dict[str, Any]:
    return {"max_episode_steps": steps, **kwargs}


CASES = [
    Case("CartPole-v0", balancing, numpy_sines=True),
    Case("CartPole-v1", balancing, numpy_sines=True),
    Case("CartPole-v1", balancing, kwargs=limited(90, sutton_barto_reward=True), numpy_sines=True),
    Case("MountainCar-v0", swinging(1)),
    Case("MountainCar-v0", swinging(1), kwargs=limited(150, goal_velocity=0.03)),
    Case("MountainCarContinuous-v0", throttling),
    Case("MountainCarContinuous-v0", throttling, kwargs=limited(150, goal_velocity=0.02)),
    Case("Pendulum-v1", turning, (False, True), numpy_sines=True),
    Case("Pendulum-v1", turning, (False, True), limited(130, g=9.81), numpy_sines=True),
    Case("Acrobot-v1", swinging(5), numpy_sines=True),
    Case("FrozenLake-v1", across_the_ice, (True, False)),
    Case("FrozenLake-v1", across_the_ice, kwargs={"is_slippery": False}),
    Case("FrozenLake-v1", across_the_ice, kwargs={"success_rate": 0.9, "reward_schedule": (3, -2, 0.125)}),
    Case("FrozenLake-v1", across_the_ice, kwargs=limited(20, desc=["SFFS", "FHFF", "GFFF"])),
    Case("FrozenLake-v1", across_the_ice, kwargs={"map_name": "8x8"}),
    Case("FrozenLake-v1", across_the_ice, kwargs={"map_name": None, "desc": generate_random_map(6, seed=3)}),
    Case("FrozenLake8x8-v1", across_the_ice),
    Case("CliffWalking-v1", along_the_cliff, (True, False), cut=200),
    Case("CliffWalking-v1", along_the_cliff, kwargs=limited(60, is_slippery=True)),
    Case("CliffWalkingSlippery-v1", along_the_cliff, (True, False), cut=200),
    Case("Taxi-v4", driving),
    Case("Taxi-v4", driving, kwargs={"is_rainy": True}),
    Case("Taxi-v4", driving, kwargs={"fickle_passenger": True, "fickle_probability": 0.9}),
    Case("Taxi-v4", driving, kwargs={"is_rainy": True, "fickle_passenger": True, "rainy_probability": 0.6}),
    Case("Blackjack-v1", at_random(2), (True, False)),
    Case("Blackjack-v1", at_random(2), (True, False), {"sab": False}),
    Case("Blackjack-v1", at_random(2), (True, False), {"sab": False, "natural": True}),
]


class Beside:
    """Native environments and Gymnasium's, which are compared after each call."""

    def __init__(self, case: Case) -> None:
        self.native = NativeVectorEnv(case.id, NUM_ENVS, autoreset_mode=AutoresetMode.DISABLED, **case.kwargs)
        self.gyms = [gym.make(case.id, disable_env_checker=True, **case.kwargs) for _ in range(NUM_ENVS)]
        self.rtol, self.cut = (0.0, case.cut) if SINES_ARE_SHARED or not case.numpy_sines else (1e-4, SHORT)
        self.obs: list[Any] = [None] * NUM_ENVS
        self.infos: list[Any] = [None] * NUM_ENVS
        self.steps = np.zeros(NUM_ENVS, int)
        self.episodes = np.arange(NUM_ENVS)
        self.ends = np.zeros(2, int)
        assert self.native.single_observation_space == self.gyms[0].observation_space
        assert self.native.single_action_space == self.gyms[0].action_space

    def reset(self, mask: np.ndarray, seeds: list[int | None], options: dict[str, Any] | None = None) -> None:
        """Resets the environments of ``mask`` with their entries of ``seeds``."""
        obs, infos = self.native.reset(seed=seeds, options={"reset_mask": mask, **(options or {})})
        for i in mask.nonzero()[0]:
            self.obs[i], self.infos[i] = self.gyms[i].reset(seed=seeds[i], options=options)
        self._assert_same(obs, infos, mask)
        self.steps[mask] = 0
        self.episodes[mask] += 1

    def step(self, actions: list[Any]) -> np.ndarray:
        """Steps all environments and returns which episodes are over."""
        obs, rew, terminated, truncated, infos = self.native.step(np.stack(actions))
        answers = [env.step(action) for env, action in zip(self.gyms, actions, strict=True)]
        self.obs, rewards, *flags, self.infos = map(list, zip(*answers, strict=True))
        self._assert_close(rew, np.array(rewards, np.float64))
        assert [terminated.tolist(), truncated.tolist()] == flags
        self._assert_same(obs, infos, np.ones(NUM_ENVS, bool))
        self.steps += 1
        self.ends += terminated.sum(), truncated.sum()
        return terminated | truncated | (self.steps == self.cut)

    def _assert_close(self, ours: np.ndarray, theirs: np.ndarray) -> None:
        assert ours.dtype == theirs.dtype
        if self.rtol or not np.array_equal(ours, theirs):
            np.testing.assert_allclose(ours, theirs, self.rtol, self.rtol)

    def _assert_same(self, obs: Any, infos: dict[str, Any], told: np.ndarray) -> None:
        rows = np.stack([np.asarray(part) for part in obs], axis=1) if isinstance(obs, tuple) else obs
        self._assert_close(rows, np.array(self.obs))
        keys = self.infos[0].keys()
        assert infos.keys() == keys | {f"_{key}" for key in keys}
        for key in keys:
            assert (infos[f"_{key}"] == told).all()
            theirs = np.array([self.infos[i][key] for i in told.nonzero()[0]])
            assert np.array_equal(infos[key][told], theirs), key


def compare(case: Case, steps: int, options: Sequence[dict[str, Any] | None] = (None,)) -> None:
    rng = np.random.default_rng(7)
    beside = Beside(case)
    beside.reset(np.ones(NUM_ENVS, bool), rng.integers(2**63, size=NUM_ENVS).tolist(), options[0])
    for _ in range(steps // NUM_ENVS):
        chosen = zip(beside.obs, beside.infos, beside.episodes, strict=True)
        over = beside.step([case.policy(obs, info, episode, rng) for obs, info, episode in chosen])
        if over.any():
            seeds = [None if rng.integers(RESEEDED) else int(rng.integers(2**32)) for _ in over]
            beside.reset(over, seeds, options[rng.integers(len(options))])
    if beside.cut != SHORT:
        assert ((beside.ends > 0) >= case.ends).all()


@pytest.mark.filterwarnings("ignore:.*out of date")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_steps_are_gymnasiums(case):
    compare(case, 5_000 if case.kwargs else 20_000)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.*out of date")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_million_steps_are_gymnasiums(case):
    compare(case, 1_000_000)


BOUNDS = [{"low": -0.3, "high": 0.1}, None, {"high": 0.2}, {"low": -1.1}, {"low": 0.25, "high": "0.25"}, {}]
OPTIONS = {
    "CartPole-v1": (balancing, [*BOUNDS, {"low": -3, "high": 3}]),
    "MountainCar-v0": (swinging(1), [*BOUNDS, {"low": -5, "high": np.float32(4)}]),
    "MountainCarContinuous-v0": (throttling, [*BOUNDS, {"low": -5, "high": 4}]),
    "Acrobot-v1": (swinging(5), [*BOUNDS, {"low": -9 * math.pi, "high": 28}]),
    "Pendulum-v1": (turning, [{"x_init": 0.1}, None, {"y_init": 20}, {"x_init": 50, "y_init": 0}, {}]),
}


@pytest.mark.parametrize("id", OPTIONS)
def test_resets_take_gymnasiums_options(id):
    policy, options = OPTIONS[id]
    numpy_sines = not id.startswith("MountainCar")
    compare(Case(id, policy, (False, False), limited(12), numpy_sines), 6_000, options)


@pytest.mark.parametrize(
    ("id", "options", "message"),
    [
        ("CartPole-v1", {"low": "left"}, "are numbers, got {'low': 'left'}"),
        ("CartPole-v1", {"low": None}, "are numbers"),
        ("CartPole-v1", {"low": 0.1}, "got 0.1 and 0.05"),
        ("MountainCar-v0", {"high": math.inf}, "both finite, got -0.6 and inf"),
        ("MountainCarContinuous-v0", {"low": math.nan}, "both finite, got NaN and -0.4"),
        ("Pendulum-v1", {"y_init": -1}, "got 1 and -1"),
        ("Acrobot-v1", {"high": 30}, "within 28.2743 of 0, got -0.1 and 30"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*out of date")
def test_options_that_make_no_sense_change_nothing(id, options, message):
    envs = NativeVectorEnv(id, 2, autoreset_mode="disabled")
    envs.reset(seed=1)
    before = envs.get_state()
    with pytest.raises(ValueError, match=message):
        envs.reset(seed=2, options=options)
    assert [one["state"] for one in envs.get_state()] == [one["state"] for one in before]
    envs.step(envs.action_space.sample())


@pytest.mark.parametrize(
    ("id", "options", "message"),
    [
        ("CartPole-v1", {"lo": 0.0}, r"CartPole-v1 takes no options but low and high: \['lo'\] have no effect"),
        ("Pendulum-v1", {"low": 0.0}, r"Pendulum-v1 takes no options but x_init and y_init: \['low'\]"),
        ("Taxi-v4", {"low": 0.0}, r"Taxi-v4 takes no options: \['low'\]"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*out of date")
def test_unknown_reset_options_warn_once(id, options, message):
    envs, without = (NativeVectorEnv(id, 2, autoreset_mode="disabled") for _ in range(2))
    with pytest.warns(UserWarning, match=message):
        obs, _ = envs.reset(seed=1, options=options)
    np.testing.assert_array_equal(obs, without.reset(seed=1)[0])
    envs.reset(seed=2, options=options)  # and not again: warnings are errors here
    without.reset(seed=2)
    assert [one["state"] for one in envs.get_state()] == [one["state"] for one in without.get_state()]
