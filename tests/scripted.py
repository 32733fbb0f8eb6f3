"""Scripted environments and policies, whose transitions are known beforehand."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rlfast.data.batch.batch import Batch


class Scripted(gym.Env[Any, Any]):
    """Episodes of fixed length. Observations are ``[episode, step]``: the first has step 0, the last ``length``.

    :param length: steps in an episode, or a callable that gives it from the random stream.
    :param reward: of each step, or a callable of the step.
    :param truncate: whether episodes end by truncation.
    :param dict_obs: whether the observation is a dict.
    :param info: what each step's info holds, or a callable of the step.
    """

    def __init__(self, length=3, reward=1.0, truncate=False, dict_obs=False, info=None, actions=4) -> None:
        self.length, self.reward, self.truncate, self.dict_obs, self.info = length, reward, truncate, dict_obs, info
        box = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.observation_space = spaces.Dict({"pos": box, "mask": spaces.MultiBinary(2)}) if dict_obs else box
        self.action_space = spaces.Discrete(actions)
        self.episode, self.resets, self.closed = -1, 0, False
        self.actions: list[Any] = []
        self.reset_kwargs: list[dict[str, Any]] = []

    def _obs(self) -> Any:
        obs = np.array([self.episode, self.step_count], np.float32)
        return {"pos": obs, "mask": np.array([1, 0], np.int8)} if self.dict_obs else obs

    def _info(self) -> dict[str, Any]:
        return dict(self.info(self.step_count) if callable(self.info) else self.info or {})

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.reset_kwargs.append({"seed": seed, "options": options})
        self.episode += 1
        self.resets += 1
        self.step_count = 0
        self.this_length = self.length(self.np_random) if callable(self.length) else self.length
        return self._obs(), self._info()

    def step(self, action):
        self.actions.append(action)
        self.step_count += 1
        over = self.step_count >= self.this_length
        reward = self.reward(self.step_count) if callable(self.reward) else self.reward
        return self._obs(), reward, over and not self.truncate, over and self.truncate, self._info()

    def render(self):
        return f"frame {self.step_count}"

    def close(self):
        self.closed = True


class ScriptedPolicy:
    """Acts by a function of the observations and remembers what it was asked.

    :param act: actions ``[B]`` of a batch; default zeros.
    :param state: next hidden state of a batch and the last hidden state.
    :param stored: what goes under ``policy``, of a batch.
    """

    def __init__(self, act=None, state=None, stored=None, noise=None, scale=1) -> None:
        self.act, self.state, self.stored, self.noise, self.scale = act, state, stored, noise, scale
        self.seen: list[Any] = []
        self.states: list[Any] = []

    def __call__(self, batch, state=None):
        self.seen.append(batch)
        self.states.append(state)
        act = np.zeros(len(batch.obs), np.int64) if self.act is None else self.act(batch)
        fields: dict[str, Any] = {"act": act}
        if self.state is not None:
            fields["state"] = self.state(batch, state)
        if self.stored is not None:
            fields["policy"] = self.stored(batch)
        return Batch(**fields)

    def exploration_noise(self, act, batch):
        return act if self.noise is None else self.noise(act)

    def map_action(self, act):
        return act * self.scale

    def map_action_inverse(self, act):
        return np.asarray(act) // self.scale
