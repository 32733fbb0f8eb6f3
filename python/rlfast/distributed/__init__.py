"""Training that is spread over processes and machines, on Ray.

Collectors fill the shards of a replay buffer, and learners sample from them. In the actors run the ordinary collectors,
buffers and policies. Names are imported on first access.
"""

from typing import TYPE_CHECKING

from rlfast.utils.runtime.extras import lazy_names

if TYPE_CHECKING:
    from rlfast.distributed.rate_limiter import RateLimiter
    from rlfast.distributed.run import resume, train
    from rlfast.distributed.shard import Shard, ShardConfig
    from rlfast.distributed.sharded_buffer import PrioritizedShardedBuffer, ShardedBuffer
    from rlfast.distributed.top_tree import TopTree, importance_weights

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
        "rate_limiter": ("RateLimiter",),
        "run": ("resume", "train"),
        "shard": ("Shard", "ShardConfig"),
        "sharded_buffer": ("PrioritizedShardedBuffer", "ShardedBuffer"),
        "top_tree": ("TopTree", "importance_weights"),
    },
)
