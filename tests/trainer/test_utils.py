import time

import numpy as np
import pytest

from rlfast.trainer import gather_info, test_episode


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
    assert len(parts.logger.of("log_test_data")) == 1  # no step, nothing to log


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
