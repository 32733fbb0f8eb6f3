from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from rlfast.data.stats import SequenceSummaryStats
from rlfast.policy.stats import TrainingStats, TrainingStatsWrapper, as_stats, figures_of


@dataclass(kw_only=True)
class LossStats(TrainingStats):
    loss: object


class Around(TrainingStatsWrapper):
    def __init__(self, wrapped_stats, *, bonus):
        self.bonus = bonus
        super().__init__(wrapped_stats)


class TestWrapper:
    def test_it_equals_only_its_own_kind(self):
        stats = Around(LossStats(loss=1.0), bonus=2.0)
        assert stats == Around(LossStats(loss=1.0), bonus=2.0)
        assert stats != SimpleNamespace(**vars(stats))
        assert stats != 5
        assert repr(stats).startswith("Around(bonus=2.0, ")

    def test_one_without_wrapped_statistics_lacks_their_attributes(self):
        with pytest.raises(AttributeError, match=r"^loss$"):
            _ = object.__new__(Around).loss

    def test_each_field_is_that_of_the_wrapped_statistics(self):
        inner = LossStats(loss=1.0, train_time=2.0, sample_time=0.5)
        stats = Around(inner, bonus=2.0)
        assert (stats.train_time, stats.sample_time, stats.smoothed_loss) == (2.0, 0.5, {})
        stats.train_time, stats.loss_summary = 3.0, {"loss": 1}
        assert (inner.train_time, inner.loss_summary) == (3.0, {"loss": 1})


class TestWhatLearnGives:
    def test_an_object_with_losses_is_taken_as_it_is(self):
        for result in (LossStats(loss=1.0), SimpleNamespace(get_loss_stats_dict=lambda: {"loss": 1.0})):
            assert as_stats(result, "Mine") is result

    def test_another_one_is_told(self):
        text = "Mine.learn must return a TrainingStats, a dict of losses or None, got float"
        with pytest.raises(TypeError, match=f"^{text}$"):
            as_stats(1.5, "Mine")


class TestFigures:
    def test_fields_and_losses_are_given(self):
        figures = figures_of(LossStats(loss=0.5, train_time=2.0, smoothed_loss={"loss": np.float32(0.25)}))
        assert figures == {"loss": 0.5, "train_time": 2.0, "sample_time": 0.0}

    def test_an_object_that_is_no_dataclass_has_its_losses(self):
        assert figures_of(SimpleNamespace(get_loss_stats_dict=lambda: {"loss": 0.5})) == {"loss": 0.5}

    @pytest.mark.parametrize("value", [np.array(0.5), np.float32(0.5), torch.tensor(0.5), torch.tensor([[0.5]])])
    def test_one_number_is_a_float(self, value):
        loss = figures_of(LossStats(loss=value))["loss"]
        assert (loss, type(loss)) == (0.5, float)

    @pytest.mark.parametrize("value", [np.array([0.5]), np.zeros(2), torch.zeros(2), SequenceSummaryStats])
    def test_what_is_no_number_stays(self, value):
        assert figures_of(LossStats(loss=value))["loss"] is value

    def test_a_summary_is_its_mean_and_losses_are_there_once(self):
        summary = SequenceSummaryStats(mean=np.float64(2.0), std=0.0, max=3.0, min=1.0)
        stats = LossStats(loss=summary, loss_summary={"loss": summary}, smoothed_loss={"loss": 1.5})
        assert figures_of(stats) == {"loss": 2.0, "train_time": 0.0, "sample_time": 0.0}
        assert type(figures_of(stats)["loss"]) is float
