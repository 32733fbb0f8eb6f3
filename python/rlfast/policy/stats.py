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
    """What one update of a policy tells; algorithms add their losses, usually as fields of a dataclass like this one.

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
    """Seconds the update took, sampling included."""
    smoothed_loss: dict[str, float] = field(default_factory=dict)
    """Moving averages of the losses, where a trainer keeps them."""
    sample_time: float = 0.0
    """Seconds of ``train_time`` that drawing the sample took."""
    loss_summary: dict[str, SequenceSummaryStats] = field(default_factory=dict)
    """Mean, deviation, largest and smallest of each loss, where a trainer has put several updates together."""

    def get_loss_stats_dict(self) -> dict[str, float]:
        """Give the losses for logging.

        :return: every attribute of the subclass that is not None and whose name does not begin with an underscore; a
            summary of several values by its mean.
        """
        return {
            name: value.mean if isinstance(value, SequenceSummaryStats) else value
            for name, value in self._get_self_dict().items()
            if value is not None and name not in self._non_loss_fields and name not in _NO_LOSSES and name[:1] != "_"
        }

    def _get_self_dict(self) -> dict[str, Any]:
        return vars(self)


_NO_LOSSES = frozenset(f.name for f in fields(TrainingStats))


class TrainingStatsWrapper(TrainingStats):
    """What an update tells that contains the update of another policy.

    What is not found here is looked for in what is wrapped, and the fields of :class:`TrainingStats` are always those
    of what is wrapped. A subclass sets its own attributes first, and calls this constructor last: an attribute that
    neither has cannot be set from then on.

    :param wrapped_stats: of the policy inside.

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
        """Of the policy inside."""
        return self._wrapped_stats

    def __getattr__(self, name: str) -> Any:
        if "_wrapped_stats" not in vars(self):  # a copy in the making
            raise AttributeError(name)
        return getattr(self._wrapped_stats, name)

    def __setattr__(self, name: str, value: Any) -> None:
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
        """Copy what is wrapped as well: its fields are assigned to through this."""
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


def _of_the_wrapped(name: str) -> property:
    def get(stats: TrainingStatsWrapper) -> Any:
        return getattr(stats.wrapped_stats, name)

    def set_(stats: TrainingStatsWrapper, value: Any) -> None:
        setattr(stats.wrapped_stats, name, value)

    return property(get, set_)


for _name in _NO_LOSSES:  # the class has defaults for some, so that __getattr__ would not be asked
    setattr(TrainingStatsWrapper, _name, _of_the_wrapped(_name))


def as_stats(told: Any, teller: str) -> Any:
    """Give the statistics that ``learn`` of a policy means.

    :param told: what it gave: statistics, as they are; losses by name; None for nothing to tell.
    :param teller: the policy's name, for the error.
    :raises TypeError: it is something else.

    >>> as_stats({"loss/actor": 0.5}, "MyPolicy").get_loss_stats_dict()
    {'loss/actor': 0.5}
    """
    if isinstance(told, TrainingStats) or callable(getattr(told, "get_loss_stats_dict", None)):
        return told
    if told is not None and not isinstance(told, Mapping):
        raise TypeError(
            f"{teller}.learn must return a TrainingStats, a dict of losses or None, got {type(told).__name__}"
        )
    stats = TrainingStats()
    vars(stats).update(told or {})
    return stats


def figures_of(stats: Any) -> dict[str, Any]:
    """Give all that statistics tell, for loggers: the fields of a dataclass, and the losses that are no fields.

    >>> figures_of(as_stats({"loss": torch.tensor(0.5)}, "MyPolicy"))["loss"]
    0.5
    """
    own = {f.name: getattr(stats, f.name) for f in fields(stats)} if is_dataclass(stats) else {}
    return {name: _plain(value) for name, value in {**stats.get_loss_stats_dict(), **own}.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor | np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        return value.item() if isinstance(value, np.generic) or math.prod(value.shape) == 1 else value
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    return value
