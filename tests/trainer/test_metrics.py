from dataclasses import dataclass

import numpy as np
import pytest
import torch

from rlfast.data import SequenceSummaryStats
from rlfast.policy import TrainingStats
from rlfast.policy.base import TrainingStatsWrapper
from rlfast.trainer._metrics import Clock, UpdateMetrics, average


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


@dataclass(kw_only=True)
class Told(TrainingStats):
    """Statistics with a loss that is no field."""

    note: object = None
    times: int = 0
    done: bool = False

    def get_loss_stats_dict(self):
        return {"half": self.times / 2}


def test_losses_that_are_no_attributes():
    merged = UpdateMetrics().merge([Told(times=times) for times in (1, 2, 6)])
    assert merged.loss_summary == {
        "half": SequenceSummaryStats(mean=1.5, std=pytest.approx(np.std([0.5, 1, 3])), max=3.0, min=0.5)
    }
    assert merged.smoothed_loss == {"half": 1.5}


def test_what_has_no_average_is_that_of_the_newest():
    updates = [Told(note=note, times=times, done=times == 3) for note, times in (("a", 1), ("b", 3), ("c", 5))]
    merged = average(updates)
    assert (merged.note, merged.times, merged.done) == ("c", 3.0, False)
    assert average([Told(note=np.ones((2, 2))), Told(note=(other := np.zeros((2, 2))))]).note is other
    assert average([Told(note=np.ones((1, 1))), Told(note=(other := np.zeros((1, 1))))]).note is other
    assert average([Told(note=1.0), Told(note="text")]).note == "text"
    assert average([Told(note=True), Told(note=False)]).note is False
    assert average([Told(note=None), Told(note=None)]).note is None
    assert average([Told(note=2.0), Told(note=None), Told(note=torch.tensor([4.0]))]).note == 3.0
    inner = average([Told(note=Stats(loss=1.0)), Told(note=Stats(loss=3.0))]).note
    assert (type(inner), inner.loss) == (Stats, 2.0)


def test_times_are_summed():
    merged = average([Stats(loss=0.0, train_time=time, sample_time=time / 4) for time in (0.5, 1.0, 2.0)])
    assert (merged.train_time, merged.sample_time) == (3.5, 0.875)


def test_known_values_replace_those_of_the_updates():
    merged = average([Stats(loss=1.0), Stats(loss=2.0)], loss=7.0, alpha=3.0)
    assert (merged.loss, merged.alpha) == (7.0, 3.0)


def test_a_loss_that_is_told_at_times_keeps_its_average():
    metrics = UpdateMetrics()
    metrics.merge([Stats(loss=1.0, alpha=5.0)])
    assert metrics.merge([Stats(loss=3.0)]).smoothed_loss == {"loss": 2.0, "alpha": 5.0}


def test_a_moving_average_is_over_a_hundred_updates():
    metrics = UpdateMetrics()
    metrics.merge([Stats(loss=1000.0)])
    for _ in range(99):
        merged = metrics.merge([Stats(loss=0.0)])
    assert merged.smoothed_loss == {"loss": 10.0}
    assert metrics.merge([Stats(loss=0.0)]).smoothed_loss == {"loss": 0.0}
    assert len(metrics.state()["loss"]) == 100


def test_the_shares_of_a_second():
    before = Clock(seconds=5.0, collecting=1.0, sampling=0.5, learning=0.25, updates=10)
    after = Clock(seconds=9.0, collecting=3.0, sampling=0.7, learning=1.25, updates=30)
    assert after.since(before) == {"updates/s": 5.0, "collect": "50%", "sample": "5%", "learn": "25%"}
    soon = Clock(seconds=5.0, collecting=1.0, sampling=0.5, learning=0.25, updates=11)
    assert soon.since(before) == {"updates/s": pytest.approx(1e9), "collect": "0%", "sample": "0%", "learn": "0%"}
    quick = Clock(seconds=5.5, collecting=1.25, sampling=0.5, learning=0.25, updates=11)
    assert quick.since(before) == {"updates/s": 2.0, "collect": "50%", "sample": "0%", "learn": "0%"}
