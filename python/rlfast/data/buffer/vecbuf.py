"""Another path to what :mod:`rlfast.data.buffer.vector` has."""

from rlfast.data.buffer.vector import HERVectorReplayBuffer, PrioritizedVectorReplayBuffer, VectorReplayBuffer

__all__ = ["HERVectorReplayBuffer", "PrioritizedVectorReplayBuffer", "VectorReplayBuffer"]
