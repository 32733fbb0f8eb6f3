"""Batches, replay buffers, collectors and their statistics.

Each name is imported on first access, so that buffers can be used without torch and without an environment library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlfast.utils.runtime.extras import lazy_names

if TYPE_CHECKING:
    from rlfast.data.batch.batch import Batch as Batch
    from rlfast.data.buffer.base import ReplayBuffer as ReplayBuffer
    from rlfast.data.buffer.cached import CachedReplayBuffer as CachedReplayBuffer
    from rlfast.data.buffer.hindsight import HERReplayBuffer as HERReplayBuffer
    from rlfast.data.buffer.manager import HERReplayBufferManager as HERReplayBufferManager
    from rlfast.data.buffer.manager import PrioritizedReplayBufferManager as PrioritizedReplayBufferManager
    from rlfast.data.buffer.manager import ReplayBufferManager as ReplayBufferManager
    from rlfast.data.buffer.mixed import MixedReplayBuffer as MixedReplayBuffer
    from rlfast.data.buffer.options.relabelling import Hindsight as Hindsight
    from rlfast.data.buffer.options.samplers import Prioritized as Prioritized
    from rlfast.data.buffer.options.samplers import Uniform as Uniform
    from rlfast.data.buffer.options.units import FrameStack as FrameStack
    from rlfast.data.buffer.options.units import NStep as NStep
    from rlfast.data.buffer.options.units import Sequence as Sequence
    from rlfast.data.buffer.options.units import Transition as Transition
    from rlfast.data.buffer.prioritized import PrioritizedReplayBuffer as PrioritizedReplayBuffer
    from rlfast.data.buffer.shared.buffer import SharedReplayBuffer as SharedReplayBuffer
    from rlfast.data.buffer.shared.writer import SharedWriter as SharedWriter
    from rlfast.data.buffer.vector import HERVectorReplayBuffer as HERVectorReplayBuffer
    from rlfast.data.buffer.vector import PrioritizedVectorReplayBuffer as PrioritizedVectorReplayBuffer
    from rlfast.data.buffer.vector import VectorReplayBuffer as VectorReplayBuffer
    from rlfast.data.collect.collector import AsyncCollector as AsyncCollector
    from rlfast.data.collect.collector import BaseCollector as BaseCollector
    from rlfast.data.collect.collector import Collector as Collector
    from rlfast.data.converter import to_numpy as to_numpy
    from rlfast.data.converter import to_torch as to_torch
    from rlfast.data.converter import to_torch_as as to_torch_as
    from rlfast.data.stats import CollectStats as CollectStats
    from rlfast.data.stats import CollectStatsBase as CollectStatsBase
    from rlfast.data.stats import EpochStats as EpochStats
    from rlfast.data.stats import InfoStats as InfoStats
    from rlfast.data.stats import SequenceSummaryStats as SequenceSummaryStats
    from rlfast.data.stats import TimingStats as TimingStats
    from rlfast.data.utils.segtree import SegmentTree as SegmentTree

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "batch.batch": ("Batch",),
        "buffer.options.relabelling": ("Hindsight",),
        "buffer.options.samplers": ("Prioritized", "Uniform"),
        "buffer.options.units": ("FrameStack", "NStep", "Sequence", "Transition"),
        "buffer.base": ("ReplayBuffer",),
        "buffer.cached": ("CachedReplayBuffer",),
        "buffer.hindsight": ("HERReplayBuffer",),
        "buffer.manager": ("HERReplayBufferManager", "PrioritizedReplayBufferManager", "ReplayBufferManager"),
        "buffer.mixed": ("MixedReplayBuffer",),
        "buffer.prioritized": ("PrioritizedReplayBuffer",),
        "buffer.shared.buffer": ("SharedReplayBuffer",),
        "buffer.shared.writer": ("SharedWriter",),
        "buffer.vector": ("HERVectorReplayBuffer", "PrioritizedVectorReplayBuffer", "VectorReplayBuffer"),
        "collect.collector": ("AsyncCollector", "BaseCollector", "Collector"),
        "converter": ("to_numpy", "to_torch", "to_torch_as"),
        "utils.segtree": ("SegmentTree",),
        "stats": ("CollectStats", "CollectStatsBase", "EpochStats", "InfoStats", "SequenceSummaryStats", "TimingStats"),
    },
)
