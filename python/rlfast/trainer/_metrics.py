"""From the figures of single updates to what is logged and shown."""

from __future__ import annotations

import math
from collections import defaultdict
from copy import copy
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from rlfast.data.stats import SequenceSummaryStats
from rlfast.policy.stats import TrainingStats
from rlfast.utils import MovAvg

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class UpdateMetrics:
    """Puts the updates that belong together into one record, and keeps moving averages of their losses.

    :param size: records in a moving average.
    """

    def __init__(self, size: int = 100) -> None:
        self.moving: defaultdict[str, MovAvg] = defaultdict(lambda: MovAvg(size))

    def merge(self, updates: Sequence[TrainingStats]) -> TrainingStats:
        """One record for all ``updates``, which then count in the moving averages.

        :return: see :func:`average`; ``smoothed_loss`` has the moving averages.
        """
        smoothed = {}
        for update in updates:
            for name, loss in update.get_loss_stats_dict().items():
                smoothed[name] = self.moving[name].add(loss)
        missing = {name: moving.get() for name, moving in self.moving.items() if name not in smoothed}
        return average(updates, smoothed_loss=smoothed | missing)

    def state(self) -> dict[str, list[float]]:
        """The losses in the moving averages, by name."""
        return {name: list(moving.cache) for name, moving in self.moving.items()}

    def set_state(self, state: Mapping[str, Sequence[float]]) -> None:
        """Goes on from what :meth:`state` gave."""
        self.moving.clear()
        for name, losses in state.items():
            self.moving[name].add(losses)


def average(updates: Sequence[TrainingStats], **known: Any) -> TrainingStats:
    """One record for all ``updates`` (at least one, of one class).

    :param known: fields that have another value than they would.
    :return: a copy of the last: numbers averaged over the updates, summaries merged, times added up, and in
        ``loss_summary`` mean, deviation, largest and smallest of each loss.
    """
    losses = [update.get_loss_stats_dict() for update in updates]
    merged = copy(updates[-1])
    if len(updates) > 1:  # off the policy there is usually one: nothing to merge
        _merge_into(merged, updates)
    names = dict.fromkeys(name for own in losses for name in own)
    merged.loss_summary = {
        name: _summary(
            [_loss(update, name, own[name]) for update, own in zip(updates, losses, strict=True) if name in own]
        )
        for name in names
    }
    for name, value in known.items():
        setattr(merged, name, value)
    return merged


def _merge_into(merged: Any, updates: Sequence[Any]) -> None:
    for name in vars(merged):
        values = [vars(update).get(name) for update in updates]
        if name in ("train_time", "sample_time"):
            vars(merged)[name] = sum(values)
        else:
            vars(merged)[name] = _merge(values)


def _loss(update: TrainingStats, name: str, loss: float) -> Any:
    """A loss with as much as is known of it: the summary over several updates, or the number."""
    known = getattr(update, "loss_summary", {}).get(name)
    value = getattr(update, name, None) if known is None else known
    return value if isinstance(value, SequenceSummaryStats) else loss


def _merge(values: list[Any]) -> Any:
    present = [_number(value) for value in values if value is not None]
    if present and all(isinstance(value, SequenceSummaryStats) for value in present):
        return _summary(present)
    if present and all(isinstance(value, int | float) and not isinstance(value, bool) for value in present):
        return fmean(present)
    if present and all(isinstance(value, TrainingStats) for value in present):
        return average(present)
    return values[-1]


def _number(value: Any) -> Any:
    """A tensor or an array of one number, or a number of NumPy, as Python's own; other values as they are."""
    return value.item() if getattr(value, "ndim", None) in (0, 1) and math.prod(value.shape) == 1 else value


def _summary(values: list[Any]) -> SequenceSummaryStats:
    """Of numbers, or of summaries of equally many numbers each."""
    if not all(isinstance(value, SequenceSummaryStats) for value in values):
        return SequenceSummaryStats.from_sequence(values)
    mean = fmean(value.mean for value in values)
    square = fmean(value.std**2 + (value.mean - mean) ** 2 for value in values)
    return SequenceSummaryStats(
        mean=mean, std=square**0.5, max=max(value.max for value in values), min=min(value.min for value in values)
    )


@dataclass(frozen=True, kw_only=True)
class Clock:
    """What was spent up to a moment: seconds of each kind of work, and updates."""

    seconds: float
    collecting: float
    sampling: float
    learning: float
    updates: int

    def since(self, before: Clock) -> dict[str, float | str]:
        """Updates per second, and the shares of the time between the two moments.

        >>> start = Clock(seconds=0.0, collecting=0.0, sampling=0.0, learning=0.0, updates=0)
        >>> Clock(seconds=2.0, collecting=1.0, sampling=0.1, learning=0.5, updates=30).since(start)
        {'updates/s': 15.0, 'collect': '50%', 'sample': '5%', 'learn': '25%'}
        """
        seconds = max(self.seconds - before.seconds, 1e-9)

        def share(name: str) -> str:
            return f"{(getattr(self, name) - getattr(before, name)) / seconds:.0%}"

        return {
            "updates/s": (self.updates - before.updates) / seconds,
            "collect": share("collecting"),
            "sample": share("sampling"),
            "learn": share("learning"),
        }
