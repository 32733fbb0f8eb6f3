import time
from types import SimpleNamespace

import numpy as np
import pytest

from rlfast.data import Collector
from rlfast.env import DummyVectorEnv
from rlfast.trainer import gather_info, test_episode
from rlfast.trainer.utils import scalarised
from scripted import Scripted


def test_a_test_empties_the_buffer_and_leaves_evaluation_mode(setting):
    parts = setting(test_reward=6.0)
    parts.test_collector.collect(n_step=3)
    asked = []
    stats = test_episode(parts.policy, parts.test_collector, lambda *where: asked.append(where), 4, 3, parts.logger, 70)
    assert stats.returns.tolist() == [6.0] * 3
    assert asked == [(4, 70)]
    assert parts.policy.training is False
    ((step, logged),) = parts.logger.of("log_test_data")
    assert (step, logged["n_collected_episodes"]) == (70, 3)
    assert test_episode(parts.policy, parts.test_collector, None, 0, 1).n_collected_episodes == 1
    test_episode(parts.policy, parts.test_collector, None, 0, 1, parts.logger)  # no step, nothing to log
    test_episode(parts.policy, parts.test_collector, None, 0, 1, None, 5)
    assert len(parts.logger.of("log_test_data")) == 1


def test_each_environment_plays_as_many_episodes(setting):
    policy = setting().policy
    collector = Collector(policy, DummyVectorEnv([lambda: Scripted(1), lambda: Scripted(5)]))
    assert sorted(test_episode(policy, collector, None, 0, 4).lens) == [1, 1, 5, 5]


def test_a_metric_makes_one_number_of_each_episode(setting):
    parts = setting(test_reward=6.0)
    stats = test_episode(parts.policy, parts.test_collector, None, 0, 2, reward_metric=lambda returns: returns * 10)
    assert stats.returns.tolist() == [60.0, 60.0]
    assert stats.returns_stat.mean == 60.0
    np.testing.assert_array_equal(stats.lens, [2, 2])


def test_totals_of_a_run(setting):
    parts = setting()
    parts.train_collector.collect(n_step=20)
    parts.test_collector.evaluate(2)
    info = gather_info(time.time() - 10, 3.0, 7, 1.5, 0.5, parts.train_collector, parts.test_collector)
    assert (info.gradient_step, info.best_reward, info.best_reward_std) == (7, 1.5, 0.5)
    assert (info.train_step, info.train_episode, info.test_step, info.test_episode) == (20, 4, 4, 2)
    timing = info.timing
    assert timing.total_time == pytest.approx(10, abs=1)
    assert timing.train_time == timing.total_time - timing.test_time
    assert timing.train_time_update == 3.0
    assert timing.update_speed == pytest.approx(20 / timing.train_time)
    nothing = gather_info(time.time(), 0.0, 0, 0.0, 0.0)
    assert (nothing.train_step, nothing.test_step, nothing.timing.update_speed) == (0, 0, 0.0)
    assert (nothing.train_episode, nothing.test_episode, nothing.gradient_step) == (0, 0, 0)
    assert (nothing.timing.train_time_collect, nothing.timing.test_time, nothing.timing.train_time_sample) == (0, 0, 0)


def test_times_are_never_negative(monkeypatch):
    """A clock may be set back, and tests may take longer than the run so far."""
    monkeypatch.setattr(time, "time", lambda: 100.0)
    back = gather_info(200.0, 0.0, 0, 0.0, 0.0).timing
    assert (back.total_time, back.train_time, back.update_speed) == (0.0, 0.0, 0.0)
    train, test = (SimpleNamespace(collect_time=seconds, collect_step=6, collect_episode=2) for seconds in (0.25, 2.0))
    timing = gather_info(99.5, 0.125, 0, 0.0, 0.0, train, test, 0.0625).timing
    assert (timing.total_time, timing.train_time, timing.test_time, timing.update_speed) == (0.5, 0.0, 2.0, 0.0)
    timing = gather_info(99.5, 0.125, 0, 0.0, 0.0, train, None, 0.0625).timing
    assert (timing.train_time, timing.train_time_collect, timing.update_speed) == (0.5, 0.25, 12.0)
    assert (timing.train_time_update, timing.train_time_sample) == (0.125, 0.0625)


def test_a_metric_leaves_the_statistics_of_the_collect_as_they_are(setting):
    parts = setting(test_reward=6.0)
    stats = parts.test_collector.collect(n_episode=2)
    weighed = scalarised(stats, lambda returns: -returns)
    assert (weighed.returns.tolist(), stats.returns.tolist()) == ([-6.0, -6.0], [6.0, 6.0])
    assert scalarised(stats, None) is stats
    nothing = parts.train_collector.collect(n_step=2)
    assert scalarised(nothing, lambda returns: 1 / 0) is nothing
