"""Collectors of scripted environments, and what they have stored."""

from typing import Any

from rlfast.data import Batch, Collector, VectorReplayBuffer
from rlfast.env import DummyVectorEnv
from scripted import ScriptedPolicy


def vector(*envs, **options) -> DummyVectorEnv:
    return DummyVectorEnv([lambda env=env: env for env in envs], **options)


def collector(*envs, policy=None, size=100, kind=Collector, mode=None, **options) -> Any:
    """Make a collector whose buffer has ``size`` rows for each environment."""
    buffer = VectorReplayBuffer(size * len(envs), len(envs))
    return kind(policy or ScriptedPolicy(), vector(*envs, autoreset_mode=mode), buffer, **options)


def rings(c: Any) -> list[Batch]:
    """Return the rows of each environment."""
    return [ring[:] for ring in c.buffer.buffers]


def count(batch, state):
    """Give a hidden state that counts the steps since it was last zero."""
    return (0 if state is None else state) + (batch.obs[:, 0] * 0 + 1)
