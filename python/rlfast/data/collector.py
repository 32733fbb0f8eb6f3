"""Collectors, their hooks and their statistics."""

from rlfast.data.collect.collector import AsyncCollector, BaseCollector, Collector, TCollectStats
from rlfast.data.collector_hooks import (
    CollectActionBatchProtocol,
    CollectStepBatchProtocol,
    EpisodeBatchProtocol,
    EpisodeRolloutHook,
    EpisodeRolloutHookMCReturn,
    EpisodeRolloutHookMerged,
    EpisodeRolloutHookProtocol,
    StepHook,
    StepHookAddActionDistribution,
    StepHookProtocol,
)
from rlfast.data.stats import CollectStats, CollectStatsBase

__all__ = [
    "AsyncCollector",
    "BaseCollector",
    "CollectActionBatchProtocol",
    "CollectStats",
    "CollectStatsBase",
    "CollectStepBatchProtocol",
    "Collector",
    "EpisodeBatchProtocol",
    "EpisodeRolloutHook",
    "EpisodeRolloutHookMCReturn",
    "EpisodeRolloutHookMerged",
    "EpisodeRolloutHookProtocol",
    "StepHook",
    "StepHookAddActionDistribution",
    "StepHookProtocol",
    "TCollectStats",
]
