"""Training that is spread over processes and machines, on Ray.

Collectors fill the shards of a replay buffer, and learners sample from them. In the actors run the ordinary collectors,
buffers and policies. Names are imported on first access.
"""

from typing import TYPE_CHECKING

from rlfast.utils.runtime.extras import lazy_names

if TYPE_CHECKING:
    from rlfast.distributed.replay.rate_limiter import RateLimiter
    from rlfast.distributed.replay.shard import Shard, ShardConfig
    from rlfast.distributed.replay.sharded_buffer import PrioritizedShardedBuffer, ShardedBuffer
    from rlfast.distributed.replay.top_tree import TopTree, importance_weights
    from rlfast.distributed.run import resume, train

__all__ = [
    "PrioritizedShardedBuffer",
    "RateLimiter",
    "Shard",
    "ShardConfig",
    "ShardedBuffer",
    "TopTree",
    "importance_weights",
    "resume",
    "train",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "replay.rate_limiter": ("RateLimiter",),
        "run": ("resume", "train"),
        "replay.shard": ("Shard", "ShardConfig"),
        "replay.sharded_buffer": ("PrioritizedShardedBuffer", "ShardedBuffer"),
        "replay.top_tree": ("TopTree", "importance_weights"),
    },
)
