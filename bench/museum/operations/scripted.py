"""Environments whose rows are known, for Gymnasium 0.28 and later."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import gymnasium as gym
import numpy as np


class Counter(gym.Env):
    """Observations count ``100 * episode + step``; an episode has ``length`` steps, each with reward 1.

    :param end: "t" truncates, "T" terminates.
    :param shared: whether one array is written to again and again, as simulators do.
    :param infos: the values of ``info["value"]``, by step.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(
        self, length: int = 3, end: str = "t", shared: bool = False, infos: Any = None, reward: Any = 1.0
    ) -> None:
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float32)
        self.action_space = gym.spaces.Discrete(2)
        self.length, self.end, self.shared, self.infos, self.reward = length, end, shared, infos, reward
        self.array = np.zeros(1, np.float32)
        self.episode, self.steps, self.total = -1, 0, 0

    def observe(self) -> tuple[Any, dict[str, Any]]:
        obs = self.array if self.shared else np.zeros(1, np.float32)
        obs[...] = 100 * self.episode + self.steps
        info: dict[str, Any] = {}
        if self.infos is not None:
            info["value"] = self.infos[self.total % len(self.infos)]
        return obs, info

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.episode, self.steps = self.episode + 1, 0
        return self.observe()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps, self.total = self.steps + 1, self.total + 1
        over = self.steps >= self.length
        obs, info = self.observe()
        return obs, float(self.reward), over and self.end == "T", over and self.end == "t", info


class Starts(Counter):
    """The first observation of an episode is drawn from ``np_random``; the others count on from it."""

    def observe(self) -> tuple[Any, dict[str, Any]]:
        if self.steps == 0:
            self.start = self.np_random.random()
        return np.array([self.start + self.steps], np.float32), {}


class Fails(Counter):
    """Its second step ends its process, raises, or does not return."""

    def __init__(self, how: str) -> None:
        super().__init__(length=100)
        self.how = how

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.total == 1:
            if self.how == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.how == "exits":
                os._exit(3)
            if self.how == "hangs":
                time.sleep(1000)
            raise RuntimeError("the simulator lost its licence")
        return super().step(action)


class Strict(Counter):
    """Records actions that are not in its space."""

    def __init__(self, space: gym.Space) -> None:
        super().__init__(length=5)
        self.action_space = space
        self.outside: list[str] = []
        self.seen = 0

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.seen += 1
        if not self.action_space.contains(action):
            self.outside.append(f"{action!r} ({type(action).__name__})")
        return super().step(action)


class Shown(gym.Env):
    """Observations are values that were given, so that a critic that returns its observation is scripted."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(self, rew: Any, value: Any, value_next: Any, terminated: Any, truncated: Any) -> None:
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float32)
        self.action_space = gym.spaces.Discrete(2)
        self.columns, self.time = (rew, value, value_next, terminated, truncated), 0

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        value = self.columns[1]
        return np.array([value[min(self.time, len(value) - 1)]], np.float32), {}

    def step(self, action: Any) -> Any:
        rew, _, value_next, terminated, truncated = (column[self.time] for column in self.columns)
        self.time += 1
        return np.array([value_next], np.float32), float(rew), bool(terminated), bool(truncated), {}


SPACES = {
    "Discrete(5, start=3)": lambda: gym.spaces.Discrete(5, start=3),
    "Box(-0.5, 2)": lambda: gym.spaces.Box(-0.5, 2.0, (2,), np.float32),
    "Box(-1.3812797, 0.82177013)": lambda: gym.spaces.Box(
        np.array([-1.3812797], np.float32), np.array([0.82177013], np.float32), dtype=np.float32
    ),
    "Box([0, 0], [5, 1])": lambda: gym.spaces.Box(
        np.array([0.0, 0.0], np.float32), np.array([5.0, 1.0], np.float32), dtype=np.float32
    ),
    "Box(-inf, inf)": lambda: gym.spaces.Box(-np.inf, np.inf, (1,), np.float32),
}


def make_counter(**options: Any) -> Any:
    """Returns a function that makes a counter; also an id under which Gymnasium makes it: ``register`` it first."""
    return lambda: Counter(**options)


def register(name: str, make: Any) -> str:
    """Registers an environment with Gymnasium, without wrappers that would hide it, and returns its id."""
    id = f"museum/{name}-v0"
    if id not in gym.registry:
        gym.register(id, entry_point=lambda **_: make(), order_enforce=False, disable_env_checker=True)
    return id
