"""From the figures of single updates to what is logged and shown."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import fields, replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

from rlfast.data.stats import SequenceSummaryStats
from rlfast.utils import MovAvg

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlfast.policy import TrainingStats


class UpdateMetrics:
    """Averages the updates that follow one collect, and keeps moving averages of their losses.

    :param size: updates in a moving average.
    """

    def __init__(self, size: int = 100) -> None:
        self._moving: defaultdict[str, MovAvg] = defaultdict(lambda: MovAvg(size))

    def merge(self, updates: Sequence[TrainingStats]) -> TrainingStats:
        """One record for all ``updates`` (at least one, of one class).

        :return: of the same class: numbers averaged over the updates, summaries merged, ``train_time`` added up, and
            ``smoothed_loss`` the moving averages.
        """
        for update in updates:
            for name, loss in update.get_loss_stats_dict().items():
                self._moving[name].add(loss)
        merged = {
            field.name: _merge([getattr(update, field.name) for update in updates]) for field in fields(updates[0])
        }
        merged["train_time"] = sum(update.train_time for update in updates)
        merged["smoothed_loss"] = {name: average.get() for name, average in self._moving.items()}
        return replace(updates[-1], **merged)


def _merge(values: list[Any]) -> Any:
    present = [value for value in values if value is not None]
    if present and all(isinstance(value, SequenceSummaryStats) for value in present):
        return SequenceSummaryStats(
            mean=fmean(value.mean for value in present),
            std=fmean(value.std for value in present),
            max=max(value.max for value in present),
            min=min(value.min for value in present),
        )
    if present and all(isinstance(value, int | float) and not isinstance(value, bool) for value in present):
        return fmean(present)
    return values[-1]
