from dataclasses import dataclass

import numpy as np
import pytest
import torch

from rlfast.data import SequenceSummaryStats
from rlfast.policy import TrainingStats
from rlfast.policy.base import TrainingStatsWrapper
from rlfast.trainer._metrics import UpdateMetrics, average


@dataclass(kw_only=True)
class Stats(TrainingStats):
    loss: float
    clip: SequenceSummaryStats | None = None
    alpha: float | None = None


class Outer(TrainingStatsWrapper):
    def __init__(self, wrapped_stats, extra):
        self.extra = extra
        super().__init__(wrapped_stats)


def test_numbers_are_averaged_and_summaries_merged():
    updates = [
        Stats(loss=1.0, train_time=0.5, clip=SequenceSummaryStats.from_sequence([1.0, 3.0])),
        Stats(loss=4.0, train_time=0.25, alpha=2.0, clip=SequenceSummaryStats.from_sequence([5.0, 5.0])),
    ]
    merged = UpdateMetrics().merge(updates)
    assert type(merged) is Stats
    assert (merged.loss, merged.train_time, merged.alpha) == (2.5, 0.75, 2.0)
    pooled = SequenceSummaryStats(mean=3.5, std=pytest.approx(np.std([1, 3, 5, 5])), max=5.0, min=1.0)
    assert merged.clip == pooled
    assert merged.loss_summary == {
        "loss": SequenceSummaryStats(mean=2.5, std=1.5, max=4.0, min=1.0),
        "clip": pooled,
        "alpha": SequenceSummaryStats(mean=2.0, std=0.0, max=2.0, min=2.0),  # of the one update that had it
    }
    assert merged.smoothed_loss == {"loss": 2.5, "clip": 3.5, "alpha": 2.0}


def test_averages_move_over_the_newest_updates():
    metrics = UpdateMetrics(size=3)
    for loss in range(4):
        merged = metrics.merge([Stats(loss=float(loss))])
    assert merged.loss == 3.0
    assert merged.smoothed_loss["loss"] == pytest.approx(2.0)


def test_averages_of_averages_keep_the_extremes_and_the_whole_deviation():
    first = average([Stats(loss=loss) for loss in (1.0, 9.0)])
    second = average([Stats(loss=loss) for loss in (4.0, 6.0)])
    whole = average([first, second])
    assert whole.loss == 5.0
    expected = SequenceSummaryStats(mean=5.0, std=pytest.approx(np.std([1, 9, 4, 6])), max=9.0, min=1.0)
    assert whole.loss_summary["loss"] == expected


def test_moving_averages_are_carried_over():
    metrics, other = UpdateMetrics(size=3), UpdateMetrics(size=3)
    for loss in (5.0, 7.0):
        metrics.merge([Stats(loss=loss)])
    other.merge([Stats(loss=100.0)])
    other.set_state(metrics.state())
    assert other.merge([Stats(loss=9.0)]).smoothed_loss == {"loss": 7.0}


def test_wrapped_statistics_are_averaged_too():
    updates = [Outer(Stats(loss=loss, train_time=0.25), extra) for loss, extra in ((1.0, 5.0), (2.0, 9.0))]
    merged = UpdateMetrics().merge(updates)
    assert type(merged) is Outer
    assert merged.train_time == 0.5
    assert merged.get_loss_stats_dict() == {"loss": 1.5, "extra": 7.0} == merged.smoothed_loss
    assert merged.loss_summary["loss"] == SequenceSummaryStats(mean=1.5, std=0.5, max=2.0, min=1.0)
    assert merged.wrapped_stats.loss_summary is merged.loss_summary
    assert [(update.loss, update.train_time, update.loss_summary) for update in updates] == [
        (1.0, 0.25, {}),
        (2.0, 0.25, {}),
    ]


def test_statistics_with_a_constructor_of_their_own_are_averaged():
    class Own(TrainingStats):
        def __init__(self, loss):
            super().__init__()
            self.loss = loss
            self._hidden = loss

    updates = [Own(1.0), Own(4.0)]
    merged = UpdateMetrics().merge(updates)
    assert type(merged) is Own
    assert merged.get_loss_stats_dict() == {"loss": 2.5} == merged.smoothed_loss
    assert [update.loss for update in updates] == [1.0, 4.0]
    alone = UpdateMetrics().merge(updates[:1])
    assert alone.loss_summary["loss"].max == 1.0
    assert updates[0].loss_summary == {}


@pytest.mark.parametrize("number", [np.float32, np.asarray, torch.tensor, lambda loss: torch.tensor([loss])])
def test_losses_that_are_no_floats_of_python(number):
    merged = UpdateMetrics().merge([Stats(loss=number(loss)) for loss in (1.0, 4.0)])
    assert merged.loss == 2.5
    assert merged.loss_summary["loss"].max == 4.0
    assert merged.smoothed_loss == {"loss": 2.5}
