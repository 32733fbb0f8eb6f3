"""The loop that all trainers share: collect, update, save, test."""

from __future__ import annotations

import logging
import math
import time
import warnings
from abc import ABC, abstractmethod
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Self

from rlfast.data.stats import EpochStats
from rlfast.trainer._metrics import UpdateMetrics
from rlfast.trainer.utils import gather_info, scalarised, test_episode
from rlfast.utils.logger import LazyLogger
from rlfast.utils.progress import ProgressBar

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from rlfast.data import ReplayBuffer
    from rlfast.data.collector import Collector
    from rlfast.data.stats import CollectStats, CollectStatsBase, InfoStats, SequenceSummaryStats
    from rlfast.policy import BasePolicy, TrainingStats
    from rlfast.utils.logger import BaseLogger

log = logging.getLogger(__name__)


class BaseTrainer(ABC):
    """Trains a policy epoch by epoch: ``run()`` does all of them, iterating yields an :class:`EpochStats` after each.

    A loop over a trainer may be left and continued by another; once training is over, iterating (or ``run``) starts
    anew.

    :param policy: what is trained.
    :param max_epoch: most epochs.
    :param batch_size: rows in a gradient step. None: the whole buffer.
    :param train_collector: collects the transitions to learn from.
    :param test_collector: plays the tests; None for no tests.
    :param buffer: a buffer to learn from without collecting; prepared once by ``policy.process_buffer``.
    :param step_per_epoch: environment steps in an epoch, rounded up to whole collects.
    :param repeat_per_collect: passes over what was collected, for on-policy learning.
    :param episode_per_test: episodes in a test, shared out evenly among the test environments.
    :param update_per_step: gradient steps for each environment step, for off-policy learning.
    :param step_per_collect: environment steps between updates; either this or the next.
    :param episode_per_collect: episodes between updates.
    :param train_fn: called before each collect with epoch and environment step.
    :param test_fn: called before each test with epoch and environment step.
    :param stop_fn: is told the mean return of a test, and says whether that is enough.
    :param save_best_fn: is given the policy at the start and whenever a test went better than all before.
    :param save_checkpoint_fn: called by the logger at the end of an epoch with epoch, environment step and gradient
        step; returns where it saved.
    :param resume_from_log: whether the counters go on where the logger's data end.
    :param reward_metric: makes of returns ``[episodes, agents]`` one number for each episode.
    :param logger: takes the figures; by default none does.
    :param verbose: whether the result of every test is printed.
    :param show_progress: whether a progress bar is shown.
    :param test_in_train: whether a training collect whose mean return satisfies ``stop_fn`` leads to a test at once,
        and to the end of training if that satisfies it too.
    :param start_timesteps: random environment steps before the first update, counted as all others.
    :param max_step: stop after exactly this many environment steps, the last collect being shortened.
    :raises ValueError: arguments that contradict each other, or one that is missing.
    """

    def __init__(
        self,
        policy: BasePolicy,
        max_epoch: int,
        batch_size: int | None,
        train_collector: Collector | None = None,
        test_collector: Collector | None = None,
        buffer: ReplayBuffer | None = None,
        step_per_epoch: int | None = None,
        repeat_per_collect: int | None = None,
        episode_per_test: int | None = None,
        update_per_step: float = 1.0,
        step_per_collect: int | None = None,
        episode_per_collect: int | None = None,
        train_fn: Callable[[int, int], None] | None = None,
        test_fn: Callable[[int, int | None], None] | None = None,
        stop_fn: Callable[[float], bool] | None = None,
        save_best_fn: Callable[[BasePolicy], None] | None = None,
        save_checkpoint_fn: Callable[[int, int, int], str] | None = None,
        resume_from_log: bool = False,
        reward_metric: Callable[[NDArray[Any]], NDArray[Any]] | None = None,
        logger: BaseLogger | None = None,
        verbose: bool = True,
        show_progress: bool = True,
        test_in_train: bool = False,
        *,
        start_timesteps: int = 0,
        max_step: int | None = None,
    ) -> None:
        self.policy = policy
        self.max_epoch = max_epoch
        self.batch_size = batch_size
        self.train_collector = train_collector
        self.test_collector = test_collector
        self.step_per_epoch = step_per_epoch
        self.repeat_per_collect = repeat_per_collect
        self.episode_per_test = episode_per_test
        self.update_per_step = update_per_step
        self.step_per_collect = step_per_collect
        self.episode_per_collect = episode_per_collect
        self.train_fn = train_fn
        self.test_fn = test_fn
        self.stop_fn = stop_fn
        self.save_best_fn = save_best_fn
        self.save_checkpoint_fn = save_checkpoint_fn
        self.resume_from_log = resume_from_log
        self.reward_metric = reward_metric
        self.logger = LazyLogger() if logger is None else logger
        self.verbose = verbose
        self.show_progress = show_progress
        self.test_in_train = test_in_train
        self.start_timesteps = start_timesteps
        self.max_step = max_step
        self._check()
        self.buffer = None if buffer is None else policy.process_buffer(buffer)
        self._started = False
        self._zero()

    def _check(self) -> None:
        for name in (
            "max_epoch",
            "step_per_epoch",
            "step_per_collect",
            "episode_per_collect",
            "episode_per_test",
            "max_step",
        ):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if self.step_per_epoch is None:
            raise ValueError("step_per_epoch is needed: how many steps make an epoch?")
        if self.test_collector is not None and self.episode_per_test is None:
            raise ValueError("a test_collector needs episode_per_test: how many episodes does a test take?")
        if self.test_in_train and (
            self.test_collector is None
            or self.train_collector is None
            or self.train_collector.policy is not self.policy
        ):
            warnings.warn(
                "test_in_train is switched off: it needs a test_collector, and a train_collector with the same policy",
                stacklevel=4,
            )
            self.test_in_train = False

    def _zero(self) -> None:
        self.epoch = self.start_epoch = self.best_epoch = 0
        self.env_step = 0
        self.gradient_step = 0
        self.best_reward = self.best_reward_std = 0.0
        self.last_rew = self.last_len = float("nan")  # no episode has ended yet
        self.policy_update_time = 0.0
        self.stop_fn_flag = False
        self.start_time = time.time()
        self._metrics = UpdateMetrics()
        self._epoch_began = (self.start_time, 0)  # when, and after how many gradient steps
        self._last_test: CollectStats | None = None

    # -- the whole run -----------------------------------------------------------------------------------------------

    def reset(self) -> None:
        """Puts all counters at zero (or where the log ends), tests the policy, and collects ``start_timesteps``."""
        self._zero()
        self._started = True
        if self.resume_from_log:
            self.start_epoch, self.env_step, self.gradient_step = self.logger.restore_data()
            self.epoch = self.best_epoch = self.start_epoch
        if self.train_collector is not None:
            self.train_collector.reset_stat()
        if self.test_collector is not None:
            self.test_collector.reset_stat()
            returns = _returns(self._test())
            self.best_reward, self.best_reward_std = returns.mean, returns.std
        if self.save_best_fn is not None:
            self.save_best_fn(self.policy)
        if self.train_collector is not None and self.start_timesteps and not self.env_step:
            n_step = min(self.start_timesteps, self.max_step or self.start_timesteps)
            self.env_step += self.train_collector.collect(n_step=n_step, random=True, exact=True).n_collected_steps

    @property
    def is_over(self) -> bool:
        """Whether there is no epoch left, ``max_step`` is reached, or ``stop_fn`` was satisfied."""
        return self._started and (self.epoch >= self.max_epoch or self._must_stop)

    @property
    def _must_stop(self) -> bool:
        return self.stop_fn_flag or (self.max_step is not None and self.env_step >= self.max_step)

    def __iter__(self) -> Self:
        if not self._started or self.is_over:
            self.reset()
        return self

    def __next__(self) -> EpochStats:
        if not self._started:
            self.reset()
        if self.is_over:
            raise StopIteration
        return self.execute_epoch()

    def run(self) -> InfoStats:
        """Trains to the end and gives totals and timing."""
        for _ in self:
            pass
        return self.info()

    # -- one epoch ---------------------------------------------------------------------------------------------------

    def execute_epoch(self) -> EpochStats:
        """Collects and updates for ``step_per_epoch`` steps, then saves and tests."""
        self.epoch += 1
        self.policy.train()
        self._last_test = None
        self._epoch_began = (time.time(), self.gradient_step)
        collect_stat, training_stat = self._train_epoch()
        if not self.stop_fn_flag:
            self.logger.save_data(self.epoch, self.env_step, self.gradient_step, self.save_checkpoint_fn)
            if self.test_collector is not None:
                self.test_step()
        info = self.info()
        self.logger.log_info_data(asdict(info), self.epoch)
        return EpochStats(
            epoch=self.epoch,
            train_collect_stat=collect_stat,
            test_collect_stat=self._last_test,
            training_stat=training_stat,
            info_stat=info,
        )

    def _train_epoch(self) -> tuple[CollectStatsBase, TrainingStats | None]:
        assert self.step_per_epoch is not None  # noqa: S101 (checked at construction)
        training_stat = None
        with ProgressBar(self.step_per_epoch, f"Epoch #{self.epoch}", shown=self.show_progress) as bar:
            while True:
                collect_stat, steps = self._advance()
                if not self.stop_fn_flag:
                    training_stat = self.policy_update_fn(collect_stat) or training_stat
                bar.update(steps, self._figures(training_stat))
                if bar.n >= bar.total or self._must_stop:
                    return collect_stat, training_stat

    def _figures(self, training_stat: TrainingStats | None) -> dict[str, float]:
        figures: dict[str, float] = {"env_step": self.env_step}
        if not math.isnan(self.last_rew):
            figures |= {"return": self.last_rew, "len": self.last_len}
        if training_stat is not None:
            figures |= training_stat.smoothed_loss
            start, before = self._epoch_began
            figures["updates/s"] = (self.gradient_step - before) / max(time.time() - start, 1e-9)
        return figures

    def _advance(self) -> tuple[CollectStatsBase, int]:
        """What comes before an update: a collect, and how many steps of the epoch it makes."""
        result = self.train_step()
        return result, result.n_collected_steps

    def train_step(self) -> CollectStats:
        """Collects once and, under ``test_in_train``, tests if that went well enough."""
        assert self.train_collector is not None  # noqa: S101 (checked at construction)
        if self.train_fn is not None:
            self.train_fn(self.epoch, self.env_step)
        n_step, exact = self.step_per_collect, False
        if self.max_step is not None and n_step is not None and self.max_step - self.env_step < n_step:
            n_step, exact = self.max_step - self.env_step, True
        result = self.train_collector.collect(n_step=n_step, n_episode=self.episode_per_collect, exact=exact)
        result = scalarised(result, self.reward_metric)
        self.env_step += result.n_collected_steps
        if result.returns_stat is not None and result.lens_stat is not None:
            self.last_rew, self.last_len = result.returns_stat.mean, result.lens_stat.mean
            self.logger.log_train_data(asdict(result), self.env_step)
            if self.test_in_train and self.stop_fn is not None and self.stop_fn(self.last_rew):
                self._stop_if_test_agrees()
        return result

    def _stop_if_test_agrees(self) -> None:
        returns = _returns(self._test())
        if self.stop_fn is not None and self.stop_fn(returns.mean):
            self.stop_fn_flag = True
            self._remember_if_best(returns)
        else:
            self.policy.train()

    def test_step(self) -> CollectStats:
        """Tests the policy, tells ``save_best_fn`` if it was the best so far, and asks ``stop_fn``."""
        stats = self._test()
        returns = _returns(stats)
        self._remember_if_best(returns)
        message = (
            f"Epoch #{self.epoch}: test_reward: {returns.mean:.6f} ± {returns.std:.6f}, "
            f"best_reward: {self.best_reward:.6f} ± {self.best_reward_std:.6f} in #{self.best_epoch}"
        )
        log.info(message)
        if self.verbose:
            print(message, flush=True)  # noqa: T201
        if self.stop_fn is not None and self.stop_fn(self.best_reward):
            self.stop_fn_flag = True
        return stats

    def _remember_if_best(self, returns: SequenceSummaryStats) -> None:
        if self.best_reward < returns.mean:
            self.best_epoch = self.epoch
            self.best_reward, self.best_reward_std = returns.mean, returns.std
            if self.save_best_fn is not None:
                self.save_best_fn(self.policy)

    def _test(self) -> CollectStats:
        assert self.test_collector is not None  # noqa: S101 (asked by every caller)
        assert self.episode_per_test is not None  # noqa: S101 (checked at construction)
        self._last_test = test_episode(
            self.policy,
            self.test_collector,
            self.test_fn,
            self.epoch,
            self.episode_per_test,
            self.logger,
            self.env_step,
            self.reward_metric,
        )
        return self._last_test

    @abstractmethod
    def policy_update_fn(self, collect_stats: CollectStatsBase) -> TrainingStats | None:
        """Updates the policy after a collect.

        :param collect_stats: what was collected.
        :return: the updates, averaged; None when there was none to make.
        """

    def _sample_and_update(self, buffer: ReplayBuffer, times: int) -> TrainingStats:
        """Makes ``times`` gradient steps, each on a sample of its own, and logs their average."""
        updates = [self.policy.update(sample_size=self.batch_size, buffer=buffer) for _ in range(times)]
        self.gradient_step += times
        merged = self._metrics.merge(updates)
        self.policy_update_time += merged.train_time
        self.logger.log_update_data(asdict(merged), self.gradient_step)
        return merged

    def info(self) -> InfoStats:
        """Totals and timing so far."""
        return gather_info(
            start_time=self.start_time,
            policy_update_time=self.policy_update_time,
            gradient_step=self.gradient_step,
            best_reward=self.best_reward,
            best_reward_std=self.best_reward_std,
            train_collector=self.train_collector,
            test_collector=self.test_collector,
        )


def _returns(stats: CollectStats) -> SequenceSummaryStats:
    assert stats.returns_stat is not None  # noqa: S101 (a test plays at least one episode)
    return stats.returns_stat
