"""Replay buffers under Tianshou's names."""

from rlfast.data.buffer._relabel import Hindsight
from rlfast.data.buffer._samplers import Prioritized, Uniform
from rlfast.data.buffer._units import FrameStack, NStep, Sequence, Transition
from rlfast.data.buffer.base import ReplayBuffer
from rlfast.data.buffer.cached import CachedReplayBuffer
from rlfast.data.buffer.hindsight import HERReplayBuffer
from rlfast.data.buffer.manager import HERReplayBufferManager, PrioritizedReplayBufferManager, ReplayBufferManager
from rlfast.data.buffer.prioritized import PrioritizedReplayBuffer
from rlfast.data.buffer.vector import HERVectorReplayBuffer, PrioritizedVectorReplayBuffer, VectorReplayBuffer

__all__ = [
    "CachedReplayBuffer",
    "FrameStack",
    "HERReplayBuffer",
    "HERReplayBufferManager",
    "HERVectorReplayBuffer",
    "Hindsight",
    "NStep",
    "Prioritized",
    "PrioritizedReplayBuffer",
    "PrioritizedReplayBufferManager",
    "PrioritizedVectorReplayBuffer",
    "ReplayBuffer",
    "ReplayBufferManager",
    "Sequence",
    "Transition",
    "Uniform",
    "VectorReplayBuffer",
]
