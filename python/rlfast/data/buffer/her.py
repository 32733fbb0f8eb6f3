"""Another path to what :mod:`rlfast.data.buffer.hindsight` has."""

from rlfast.data.buffer.hindsight import HERReplayBuffer

__all__ = ["HERReplayBuffer"]
