import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch

from rlfast.data.stats import SequenceSummaryStats
from rlfast.utils.print import DataclassPPrintMixin


@dataclass(kw_only=True)
class TrainingStats(DataclassPPrintMixin):
    """The statistics of one update of a policy. Algorithms add their losses, usually as fields of a derived dataclass.

    >>> from dataclasses import dataclass
    >>> @dataclass(kw_only=True)
    ... class ActorCriticStats(TrainingStats):
    ...     actor_loss: float
    ...     alpha: float | None = None
    >>> ActorCriticStats(actor_loss=0.5, train_time=2.0).get_loss_stats_dict()
    {'actor_loss': 0.5}
    """

    _non_loss_fields: ClassVar[tuple[str, ...]] = ("train_time", "smoothed_loss", "sample_time", "loss_summary")

    train_time: float = 0.0
    """Duration of the update in seconds, sampling included."""
    smoothed_loss: dict[str, float] = field(default_factory=dict)
    """Moving averages of the losses, set by trainers."""
    sample_time: float = 0.0
    """The part of ``train_time`` for sampling, in seconds."""
    loss_summary: dict[str, SequenceSummaryStats] = field(default_factory=dict)
    """Mean, standard deviation, maximum and minimum of each loss, set by trainers for several updates together."""

    def get_loss_stats_dict(self) -> dict[str, float]:
        """Return the losses for logging.

        :return: the attributes of the subclass that are not None and whose names do not begin with an underscore. A
            summary of several values is replaced by its mean.
        """
        return {
            name: value.mean if isinstance(value, SequenceSummaryStats) else value
            for name, value in self._get_self_dict().items()
            if value is not None and name not in self._non_loss_fields and name not in _NO_LOSSES and name[:1] != "_"
        }

    def _get_self_dict(self) -> dict[str, Any]:
        return vars(self)


_REPEATED = ("smoothed_loss", "loss_summary")
"""Fields that have the losses again."""
_NO_LOSSES = frozenset(f.name for f in fields(TrainingStats))


class TrainingStatsWrapper(TrainingStats):
    """The statistics of a policy that wraps another policy.

    Attributes that this object lacks are those of the wrapped statistics, as are the fields of :class:`TrainingStats`.
    A subclass sets its own attributes first and calls this constructor last; after that, an attribute that neither
    object has cannot be set.

    :param wrapped_stats: the statistics of the wrapped policy.

    >>> @dataclass(kw_only=True)
    ... class LossStats(TrainingStats):
    ...     loss: float
    >>> class CuriousStats(TrainingStatsWrapper):
    ...     def __init__(self, wrapped_stats: TrainingStats, *, curiosity_loss: float) -> None:
    ...         self.curiosity_loss = curiosity_loss
    ...         super().__init__(wrapped_stats)
    >>> stats = CuriousStats(LossStats(loss=0.5), curiosity_loss=2.0)
    >>> stats.loss, stats.get_loss_stats_dict()
    (0.5, {'loss': 0.5, 'curiosity_loss': 2.0})
    """

    def __init__(self, wrapped_stats: TrainingStats) -> None:
        self._wrapped_stats = wrapped_stats

    @property
    def wrapped_stats(self) -> TrainingStats:
        """The statistics of the wrapped policy."""
        return self._wrapped_stats

    def __getattr__(self, name: str) -> Any:
        if "_wrapped_stats" not in vars(self):  # while a copy is being made
            raise AttributeError(name)
        return getattr(self._wrapped_stats, name)

    def __setattr__(self, name: str, value: object) -> None:
        inner = vars(self).get("_wrapped_stats")
        if inner is None or (name in vars(self) and name not in _NO_LOSSES):
            object.__setattr__(self, name, value)
        elif hasattr(inner, name):
            setattr(inner, name, value)
        else:
            raise AttributeError(
                f"{type(self).__name__} has no attribute {name!r} to set: set it in the constructor, before "
                "super().__init__(wrapped_stats)"
            )

    def __copy__(self) -> Self:
        """Return a copy with a copy of the wrapped statistics, as assignments reach those."""
        other = object.__new__(type(self))
        vars(other).update(vars(self), _wrapped_stats=copy.copy(self._wrapped_stats))
        return other

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if type(other) is type(self) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # its values may change, like those of a dataclass

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    def _get_self_dict(self) -> dict[str, Any]:
        return {**self._wrapped_stats._get_self_dict(), **vars(self)}  # noqa: SLF001 (the same class's)


for _name in _NO_LOSSES:  # hides the defaults of the class, for which __getattr__ would not be called
    setattr(TrainingStatsWrapper, _name, property())


def as_stats(result: object, policy_name: str) -> Any:
    """Return the result of a policy's ``learn`` as statistics.

    :param result: statistics, which are returned as they are; a dict of losses; or None for no losses.
    :param policy_name: the name of the policy's class, for the error.
    :return: the statistics.
    :raises TypeError: for another result.

    >>> as_stats({"loss/actor": 0.5}, "MyPolicy").get_loss_stats_dict()
    {'loss/actor': 0.5}
    """
    if isinstance(result, TrainingStats) or callable(getattr(result, "get_loss_stats_dict", None)):
        return result
    if result is not None and not isinstance(result, Mapping):
        raise TypeError(
            f"{policy_name}.learn must return a TrainingStats, a dict of losses or None, got {type(result).__name__}"
        )
    stats = TrainingStats()
    vars(stats).update(result or {})
    return stats


def figures_of(stats: Any) -> dict[str, Any]:
    """Return the values of statistics for loggers: the fields of a dataclass, and losses that are not fields.

    Each has one number: of a summary, the mean. Moving averages and summaries of the same losses are left out.

    :param stats: the statistics.
    :return: numbers, and dicts of numbers, by name.

    >>> figures_of(as_stats({"loss": torch.tensor(0.5)}, "MyPolicy"))["loss"]
    0.5
    """
    own = {f.name: getattr(stats, f.name) for f in fields(stats)} if is_dataclass(stats) else {}
    values = {**stats.get_loss_stats_dict(), **own}
    return {name: _plain(value) for name, value in values.items() if name not in _REPEATED}


def _plain(value: object) -> Any:
    if isinstance(value, SequenceSummaryStats):
        return float(value.mean)
    if isinstance(value, torch.Tensor | np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        return value.item() if isinstance(value, np.generic) or math.prod(value.shape) == 1 else value
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    return value
