"""Comparison of vector environments with Gymnasium's, with the same environments, seeds and actions."""

from copy import deepcopy

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from rlfast.env import DummyVectorEnv

MODES = list(AutoresetMode)
BOX = spaces.Box(-np.inf, np.inf, (2,), np.float32)
SPACES = {
    "box": BOX,
    "dict": spaces.Dict({"a": BOX, "b": spaces.Dict({"c": spaces.Discrete(5), "d": spaces.MultiBinary(3)})}),
    "tuple": spaces.Tuple((BOX, spaces.Discrete(4))),
    "text": spaces.Text(5),
    "graph in a dict": spaces.Dict({"g": spaces.Graph(BOX, None), "x": BOX}),
}


class Telling(gym.Env):
    """An environment that draws observations, rewards, flags and infos from its random generator."""

    metadata = {"render_modes": [], "render_fps": 7}

    def __init__(self, observation, action) -> None:
        self.observation_space, self.action_space = deepcopy(observation), action  # its own: it is seeded
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
        return obs, info | ({"options": len(options)} if options else {})

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


def both(make, n, mode, face=DummyVectorEnv):
    theirs = SyncVectorEnv([make] * n, autoreset_mode=mode)
    ours = face([make] * n, autoreset_mode=mode)
    ours.action_space.seed(5)
    return ours, theirs


def run_beside(ours, theirs, steps):
    """Steps both with the same actions, compares all results, and returns the number of episodes that ended."""
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
