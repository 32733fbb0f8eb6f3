"""Functions that all trainers share, and that scripts may call themselves."""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import copy
from typing import Any

from numpy.typing import NDArray

from rlfast.data.collect.collector import Collector
from rlfast.data.stats import CollectStats, InfoStats, SequenceSummaryStats, TimingStats
from rlfast.policy import BasePolicy
from rlfast.trainer._parts import as_dict, tests_by_collect
from rlfast.utils.logger import BaseLogger


def test_episode(
    policy: BasePolicy,
    collector: Collector,
    test_fn: Callable[[int, int | None], None] | None,
    epoch: int,
    n_episode: int,
    logger: BaseLogger | None = None,  # noqa: PT028 (no test)
    global_step: int | None = None,  # noqa: PT028 (no test)
    reward_metric: Callable[[NDArray[Any]], NDArray[Any]] | None = None,  # noqa: PT028 (no test)
) -> CollectStats:
    """Tests a policy: plays new episodes by :meth:`rlfast.data.Collector.evaluate`.

    The policy is put into evaluation mode and stays in it. For a collector whose class overrides ``collect`` but not
    ``evaluate``, ``reset_env`` and ``collect`` are called instead.

    :param policy: the policy of ``collector``.
    :param collector: plays the episodes; its buffer is emptied first.
    :param test_fn: called first, with ``epoch`` and ``global_step``; None for none.
    :param epoch: the epoch, for ``test_fn``.
    :param n_episode: how many episodes.
    :param logger: receives the statistics, if ``global_step`` is not None.
    :param global_step: the environment step of the training.
    :param reward_metric: converts returns ``[episodes, agents]`` to one number for each episode.
    :return: the statistics of the episodes.
    """
    by_collect = tests_by_collect(collector)
    if by_collect:
        collector.reset_env()
    collector.reset_buffer()
    policy.eval()
    if test_fn is not None:
        test_fn(epoch, global_step)
    result = collector.collect(n_episode=n_episode) if by_collect else collector.evaluate(n_episode)
    result = scalarised(result, reward_metric)
    if logger is not None and global_step is not None:
        logger.log_test_data(as_dict(result), global_step)
    return result


test_episode.__test__ = False  # type: ignore[attr-defined]  # pytest does not collect it


def scalarised(stats: CollectStats, reward_metric: Callable[[NDArray[Any]], NDArray[Any]] | None) -> CollectStats:
    """Applies ``reward_metric`` to the returns.

    :param stats: the statistics of a collect.
    :param reward_metric: maps the returns ``[episodes, agents]`` to one number for each episode; None for no change.
    :return: a copy with one return for each episode; ``stats`` itself without a metric or without episodes.
    """
    if reward_metric is None or not stats.n_collected_episodes:
        return stats
    weighed = copy(stats)
    weighed.returns = reward_metric(stats.returns)
    weighed.returns_stat = SequenceSummaryStats.from_sequence(weighed.returns)
    return weighed


def gather_info(
    start_time: float,
    policy_update_time: float,
    gradient_step: int,
    best_reward: float,
    best_reward_std: float,
    train_collector: Collector | None = None,
    test_collector: Collector | None = None,
    sample_time: float = 0.0,
) -> InfoStats:
    """Computes totals and timing of a run.

    :param start_time: when the run began, by ``time.time()``.
    :param policy_update_time: seconds spent updating.
    :param gradient_step: gradient steps so far.
    :param best_reward: the best mean return of a test.
    :param best_reward_std: the standard deviation of the returns in that test.
    :param train_collector: has the steps, episodes and seconds of training collects; None counts as 0.
    :param test_collector: has those of tests; None counts as 0.
    :param sample_time: the part of ``policy_update_time`` that was spent drawing samples.
    :return: totals and timing.
    """
    duration = max(0.0, time.time() - start_time)
    test_time = 0.0 if test_collector is None else test_collector.collect_time
    train_time = max(duration - test_time, 0.0)
    train_step = 0 if train_collector is None else train_collector.collect_step
    return InfoStats(
        gradient_step=gradient_step,
        best_reward=best_reward,
        best_reward_std=best_reward_std,
        train_step=train_step,
        train_episode=0 if train_collector is None else train_collector.collect_episode,
        test_step=0 if test_collector is None else test_collector.collect_step,
        test_episode=0 if test_collector is None else test_collector.collect_episode,
        timing=TimingStats(
            total_time=duration,
            train_time=train_time,
            train_time_collect=0.0 if train_collector is None else train_collector.collect_time,
            train_time_update=policy_update_time,
            train_time_sample=sample_time,
            test_time=test_time,
            update_speed=train_step / train_time if train_time > 0 else 0.0,
        ),
    )
