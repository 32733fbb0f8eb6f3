"""Replay buffers."""

import sys

from rlfast.data.buffer.base import ReplayBuffer
from rlfast.data.buffer.cached import CachedReplayBuffer
from rlfast.data.buffer.hindsight import HERReplayBuffer
from rlfast.data.buffer.manager import HERReplayBufferManager, PrioritizedReplayBufferManager, ReplayBufferManager
from rlfast.data.buffer.options.config import Config
from rlfast.data.buffer.options.relabelling import Hindsight
from rlfast.data.buffer.options.samplers import Prioritized, Uniform
from rlfast.data.buffer.options.units import FrameStack, NStep, Sequence, Transition
from rlfast.data.buffer.prioritized import PrioritizedReplayBuffer
from rlfast.data.buffer.store.store import Store
from rlfast.data.buffer.vector import HERVectorReplayBuffer, PrioritizedVectorReplayBuffer, VectorReplayBuffer
from rlfast.utils.runtime.extras import import_modules_on_access

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

for _old, _new in {  # what pickles of earlier versions call the modules of the classes in them
    "_config": Config.__module__,
    "_relabel": Hindsight.__module__,
    "_samplers": Uniform.__module__,
    "_store": Store.__module__,
    "_units": Transition.__module__,
    "config": Config.__module__,
    "relabelling": Hindsight.__module__,
    "samplers": Uniform.__module__,
    "units": Transition.__module__,
}.items():
    sys.modules[f"{__name__}.{_old}"] = sys.modules[_new]

import_modules_on_access(__name__)
