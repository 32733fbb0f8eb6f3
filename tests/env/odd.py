"""Unusual environments: with spaces of their own classes, without spaces, and with observations outside them."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Plain:
    """An environment that is no ``gym.Env`` and has only ``reset`` and ``step``.

    :param show: gives the observation of a step.
    :param rewards: what the steps give.
    :param flags: what the steps say of the episode's end.
    """

    def __init__(self, show=lambda step: step, rewards=(1.0,), flags=((False, False),)) -> None:
        self.show, self.rewards, self.flags = show, rewards, flags
        self.actions, self.resets = [], []

    def reset(self, **given):
        self.resets.append(given)
        self.steps = 0
        return self.show(0), {"step": 0}

    def step(self, action):
        self.actions.append(action)
        flags = self.flags[self.steps % len(self.flags)]
        reward = self.rewards[self.steps % len(self.rewards)]
        self.steps += 1
        return self.show(self.steps), reward, *flags, {"step": self.steps}

    def close(self):
        pass


class Showing(gym.Env):
    """An environment that declares ``space``, returns ``value`` whether it fits or not, and records its actions.

    :param space: of observations; ``"none"``: it has no such attribute.
    :param value: what it shows, or a function of the step; None: elements of ``space``.
    """

    def __init__(self, space="none", value=None, action_space="none") -> None:
        self.steps = 0
        if not isinstance(space, str):
            self.observation_space = space
        if not isinstance(action_space, str):
            self.action_space = action_space
        self.value, self.actions = value, []

    def _shown(self):
        if self.value is None:
            return self.observation_space.sample()
        return self.value(self.steps) if callable(self.value) else self.value

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None and self.value is None:
            self.observation_space.seed(seed)
        self.steps = 0
        return self._shown(), {}

    def step(self, action):
        self.actions.append(action)
        self.steps += 1
        return self._shown(), 1.0, False, False, {}

    def method(self, x=1, *, fail=None):
        if fail:
            raise fail("no such thing")
        return x


class Words(spaces.Space):
    """A space defined by a user. Its elements are no arrays, although it may declare a shape."""

    def __init__(self, shape=None, dtype=None) -> None:
        super().__init__(shape, dtype)

    def sample(self, mask=None, probability=None):
        return f"word {self.np_random.integers(1000)}"

    def contains(self, x):
        return isinstance(x, str)

    def __eq__(self, other):
        return isinstance(other, Words)

    def __hash__(self):
        return 0


class Graph:
    """An object that NumPy might take for a sequence."""

    def __init__(self, size) -> None:
        self.nodes = list(range(size))

    def __len__(self):
        return len(self.nodes)

    def __getitem__(self, k):
        return {"node": self.nodes[k]}

    def __eq__(self, other):
        return self.nodes == other.nodes

    def __hash__(self):
        return len(self.nodes)


def box(high=1.0, shape=(2,), dtype=np.float32):
    return spaces.Box(0, high, shape, dtype)
