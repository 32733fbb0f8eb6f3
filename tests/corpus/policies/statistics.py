"""Statistics of updates: subclasses, dictionaries, wrappers around them."""

import json
from dataclasses import dataclass, field

from tianshou.policy.base import TrainingStats, TrainingStatsWrapper


@dataclass(kw_only=True)
class Mine(TrainingStats):
    loss: float
    parts: list = field(default_factory=list)
    note: str = "n"
    other: float | None = None


class More(TrainingStatsWrapper):
    def __init__(self, wrapped_stats, *, extra):
        self.extra = extra
        super().__init__(wrapped_stats)


stats = Mine(loss=1.5)
stats.train_time = 2.0
stats.smoothed_loss["loss"] = 1.25
stats.loss = 2.5
wrapped = More(stats, extra=7.0)
wrapped.loss = 4.0
print(
    json.dumps(
        {
            "dict": stats.get_loss_stats_dict(),
            "wrapped": wrapped.get_loss_stats_dict(),
            "through": [wrapped.loss, wrapped.note, wrapped.extra, wrapped.train_time],
            "inner": stats.loss,
            "is": isinstance(wrapped, TrainingStats),
        }
    )
)
