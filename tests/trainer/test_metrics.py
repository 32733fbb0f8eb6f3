from dataclasses import dataclass

import pytest

from rlfast.data import SequenceSummaryStats
from rlfast.policy import TrainingStats
from rlfast.trainer._metrics import UpdateMetrics


@dataclass(frozen=True, kw_only=True)
class Stats(TrainingStats):
    loss: float
    clip: SequenceSummaryStats | None = None
    alpha: float | None = None


def test_numbers_are_averaged_and_summaries_merged():
    updates = [
        Stats(loss=1.0, train_time=0.5, clip=SequenceSummaryStats.from_sequence([1.0, 3.0])),
        Stats(loss=4.0, train_time=0.25, alpha=2.0, clip=SequenceSummaryStats.from_sequence([5.0, 5.0])),
    ]
    merged = UpdateMetrics().merge(updates)
    assert type(merged) is Stats
    assert (merged.loss, merged.train_time, merged.alpha) == (2.5, 0.75, 2.0)
    assert merged.clip == SequenceSummaryStats(mean=3.5, std=0.5, max=5.0, min=1.0)
    assert merged.smoothed_loss == {"loss": 2.5, "clip": 3.5, "alpha": 2.0}


def test_averages_move_over_the_newest_updates():
    metrics = UpdateMetrics(size=3)
    for loss in range(4):
        merged = metrics.merge([Stats(loss=float(loss))])
    assert merged.loss == 3.0
    assert merged.smoothed_loss["loss"] == pytest.approx(2.0)
