from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, cast

from rlfast.data.stats import SequenceSummaryStats
from rlfast.utils.print import DataclassPPrintMixin


@dataclass(frozen=True, kw_only=True)
class TrainingStats(DataclassPPrintMixin):
    """What one update of a policy tells; algorithms add their losses as fields (in frozen dataclasses, like this one).

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, kw_only=True)
    ... class ActorCriticStats(TrainingStats):
    ...     actor_loss: float
    ...     alpha: float | None = None
    >>> ActorCriticStats(actor_loss=0.5, train_time=2.0).get_loss_stats_dict()
    {'actor_loss': 0.5}
    """

    train_time: float = 0.0
    """Seconds the update took, sampling included."""
    smoothed_loss: dict[str, float] = field(default_factory=dict)
    """Moving averages of the losses, where a trainer keeps them."""
    sample_time: float = 0.0
    """Seconds of ``train_time`` that drawing the sample took."""
    loss_summary: dict[str, SequenceSummaryStats] = field(default_factory=dict)
    """Mean, deviation, largest and smallest of each loss, where a trainer has put several updates together."""

    def get_loss_stats_dict(self) -> dict[str, float]:
        """Give the losses for logging.

        :return: every field of the subclass that is not None; a summary of several values by its mean.
        """
        losses = {name: getattr(self, name) for name in _loss_names(cast("Any", type(self)))}
        return {
            name: value.mean if isinstance(value, SequenceSummaryStats) else value
            for name, value in losses.items()
            if value is not None
        }


@dataclass(frozen=True, kw_only=True)
class TrainingStatsWrapper(TrainingStats):
    """What an update tells that contains the update of another policy; algorithms add their own losses as fields.

    What is not found here is looked for in what is wrapped.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, kw_only=True)
    ... class LossStats(TrainingStats):
    ...     loss: float
    >>> @dataclass(frozen=True, kw_only=True)
    ... class CuriousStats(TrainingStatsWrapper):
    ...     curiosity_loss: float
    >>> stats = CuriousStats(wrapped_stats=LossStats(loss=0.5), curiosity_loss=2.0)
    >>> stats.loss, stats.get_loss_stats_dict()
    (0.5, {'loss': 0.5, 'curiosity_loss': 2.0})
    """

    wrapped_stats: TrainingStats
    """Of the policy inside."""

    def __getattr__(self, name: str) -> Any:
        if name == "wrapped_stats" or name.startswith("__"):  # a copy in the making has no fields yet
            raise AttributeError(name)
        return getattr(self.wrapped_stats, name)

    def get_loss_stats_dict(self) -> dict[str, float]:
        """Give the losses of what is wrapped, and these."""
        own = super().get_loss_stats_dict()
        del own["wrapped_stats"]
        return self.wrapped_stats.get_loss_stats_dict() | own


_NO_LOSSES = frozenset(f.name for f in fields(TrainingStats))


@cache
def _loss_names(kind: Any) -> list[str]:
    return [f.name for f in fields(kind) if f.name not in _NO_LOSSES]
