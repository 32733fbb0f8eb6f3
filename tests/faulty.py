"""Environments that fail as a test demands, and environments with every kind of space."""

import os
import signal
import sys
import time
from pathlib import Path

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
