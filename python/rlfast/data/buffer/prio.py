"""Another path to what :mod:`rlfast.data.buffer.prioritized` has."""

from rlfast.data.buffer.prioritized import PrioritizedReplayBuffer

__all__ = ["PrioritizedReplayBuffer"]
