"""Tianshou 1.0's path to what :mod:`rlfast.data.buffer.hindsight` has."""

from rlfast.data.buffer.hindsight import HERReplayBuffer

__all__ = ["HERReplayBuffer"]
