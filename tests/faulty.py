"""Environments that fail as a test demands, and environments with every kind of space."""

import copy
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from machine import wait_until
from scripted import Scripted


class Boom(Exception):
    """An exception that cannot be pickled by its arguments."""

    def __init__(self, *, code) -> None:
        super().__init__(f"boom {code}")
        self.code = code


def spin():
    """Runs a loop in Python without end."""
    while True:
        pass


FAULTS = {
    "raise": lambda: (_ for _ in ()).throw(ZeroDivisionError("no such number")),
    "unpicklable": lambda: (_ for _ in ()).throw(Boom(code=7)),
    "sys.exit": lambda: sys.exit(4),
    "exit": lambda: os._exit(3),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "segv": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "hang": lambda: time.sleep(1000),
    "spin": spin,
}


class Faulty(Scripted):
    """Scripted episodes, with one fault.

    :param fault: a key of ``FAULTS``.
    :param phase: where it strikes: ``constructor``, ``reset`` or ``step``.
    :param at: in the how manyth reset or step of this object, from 1.
    :param once: a file that is made at the first fault; where it exists, there is none.
    """

    def __init__(self, fault=None, phase="step", at=2, once=None, **scripted) -> None:
        super().__init__(**scripted)
        self.fault, self.phase, self.at, self.once = fault, phase, at, once
        self.steps = 0
        self.strike("constructor", self.at)

    def strike(self, phase, count):
        if self.fault is None or phase != self.phase or count != self.at:
            return
        if self.once is not None:
            if Path(self.once).exists():
                return
            Path(self.once).touch()
        FAULTS[self.fault]()

    def reset(self, **kwargs):
        self.strike("reset", self.resets + 1)
        return super().reset(**kwargs)

    def step(self, action):
        self.steps += 1
        self.strike("step", self.steps)
        return super().step(action)


class Slow(Scripted):
    """Steps that take their time.

    :param seconds: how long.
    """

    def __init__(self, seconds=0.0, **scripted) -> None:
        super().__init__(**scripted)
        self.seconds = seconds

    def step(self, action):
        if self.seconds:
            time.sleep(self.seconds)
        return super().step(action)


class Waiting(Scripted):
    """Steps that end once there is a file.

    :param gate: its path.
    """

    def __init__(self, gate, **scripted) -> None:
        super().__init__(**scripted)
        self.gate = gate

    def step(self, action):
        wait_until(self.gate.exists)
        return super().step(action)


SPACES: dict[str, spaces.Space[Any]] = {
    "box": spaces.Box(-1, 1, (3,), np.float32),
    "scalar": spaces.Box(-1, 1, (), np.float64),
    "uint8": spaces.Box(0, 255, (4, 8, 8), np.uint8),
    "large": spaces.Box(0, 255, (4, 84, 84), np.uint8),
    "discrete": spaces.Discrete(5, start=-2),
    "binary": spaces.MultiBinary((2, 3)),
    "multi": spaces.MultiDiscrete([2, 3, 4]),
    "dict": spaces.Dict({"pos": spaces.Box(-1, 1, (2,), np.float64), "id": spaces.Discrete(3)}),
    "tuple": spaces.Tuple((spaces.Discrete(2), spaces.Box(0, 1, (1, 2), np.float32))),
    "nested": spaces.Dict(
        {
            "a": spaces.Tuple((spaces.MultiBinary(2), spaces.Dict({"b": spaces.Box(0, 9, (2,), np.int16)}))),
            "c": spaces.Discrete(2),
        }
    ),
    "text": spaces.Text(8),
    "sequence": spaces.Sequence(spaces.Discrete(4)),
    "mixed": spaces.Dict({"word": spaces.Text(5), "pos": spaces.Box(0, 1, (2,), np.float32)}),
}


class Sampled(gym.Env[Any, Any]):
    """Observations are drawn from a space by the environment's own generator and depend on the actions.

    :param observation: key of ``SPACES``; likewise ``action``.
    :param chance: of an episode's end at each step.
    """

    def __init__(self, observation="box", action="discrete", chance=0.2) -> None:
        self.observation_space, self.action_space = SPACES[observation], copy.deepcopy(SPACES[action])
        self.chance = chance
        self.flag = "unset"

    def _sample(self):
        space = copy.deepcopy(self.observation_space)  # they are shared, and have one generator
        space.seed(int(self.np_random.integers(2**31)))
        return space.sample()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self._sample(), {"options": options} if options else {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.time += 1
        digest = float(np.sum(np.frombuffer(repr(action).encode(), np.uint8)))
        ended, cut = self.np_random.random(2) < self.chance
        info = {"time": self.time, "word": "x" * self.time} if self.np_random.random() < 0.5 else {}
        return self._sample(), digest + self.np_random.random(), bool(ended), bool(cut and not ended), info
