"""The loop that all trainers share: collect, update, save, test."""

from __future__ import annotations

import logging
import math
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Self, cast

import torch
from numpy.typing import NDArray
from torch import nn

from rlfast.data import ReplayBuffer
from rlfast.data.collect.collector import Collector
from rlfast.data.stats import CollectStats, CollectStatsBase, EpochStats, InfoStats, SequenceSummaryStats
from rlfast.policy import BasePolicy, TrainingStats
from rlfast.policy.stats import figures_of
from rlfast.trainer._metrics import Clock, learning_rates
from rlfast.trainer._params import Hooks, Reporting, Schedule, replaced
from rlfast.trainer._parts import as_dict, check_parts, collect_exact_steps, finite_rewards
from rlfast.trainer._prefetch import PrefetchedBuffer
from rlfast.trainer._progress import Progress
from rlfast.trainer.callbacks import Callback, Functions, check_callbacks
from rlfast.trainer.utils import gather_info, scalarised, test_episode
from rlfast.utils import MovAvg
from rlfast.utils.arguments.checks import ArgumentError, NonFiniteError
from rlfast.utils.logger import BaseLogger, LazyLogger
from rlfast.utils.net.common import device_of
from rlfast.utils.progress_bar import ProgressBar, progress_line

log = logging.getLogger(__name__)


class BaseTrainer(Schedule, Hooks, Reporting, Progress, ABC):
    """Trains a policy in epochs: ``run()`` trains all of them, and iterating yields an :class:`EpochStats` after each.

    A new loop (or ``run``) starts from the beginning, unless :meth:`stop` ended the previous one or a state was loaded;
    then it continues. The three trainers take the same arguments, and each warns of those that it does not use, which
    are its ``ignored``.

    Collectors, loggers and buffers may be of any class that has the methods which are called.
    """

    policy: BasePolicy
    buffer: ReplayBuffer | None
    test_in_train: bool
    prefetch: bool
    data_share: float

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
        test_in_train: bool = True,
        save_fn: Callable[[BasePolicy], None] | None = None,
        *,
        start_timesteps: int = 0,
        start_random: bool = True,
        max_step: int | None = None,
        prefetch: bool = False,
        data_share: float = 0.5,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        """Checks the arguments. Nothing is collected before training begins.

        :param policy: the policy to train.
        :param max_epoch: the largest number of epochs.
        :param batch_size: rows in a gradient step; None for the whole buffer.
        :param train_collector: collects the transitions for training.
        :param test_collector: plays the episodes of tests; None for no tests.
        :param buffer: a buffer to train from without collecting; in off-policy training, data that a part of each batch
            is drawn from. ``policy.process_buffer`` is called with it once.
        :param step_per_epoch: environment steps in an epoch, rounded up to whole collects; without a
            ``train_collector``, gradient steps.
        :param repeat_per_collect: passes over the collected rows, in on-policy training.
        :param episode_per_test: episodes in a test, divided evenly among the test environments.
        :param update_per_step: gradient steps for each environment step, in off-policy training. Fractions of a
            gradient step are carried over to the next collect.
        :param step_per_collect: environment steps of a collect; give either this or ``episode_per_collect``.
        :param episode_per_collect: episodes of a collect.
        :param train_fn: called before each collect with epoch and environment step.
        :param test_fn: called before each test with epoch and environment step.
        :param stop_fn: called with the mean return of a test; returns whether training is to stop.
        :param save_best_fn: called with the policy at the start and after every test with a new best mean return.
        :param save_checkpoint_fn: called by the logger at the end of an epoch with epoch, environment step and gradient
            step; returns the path of the checkpoint.
        :param resume_from_log: whether the counters continue from the end of the logger's data.
        :param reward_metric: converts returns ``[episodes, agents]`` to one number for each episode.
        :param logger: receives the statistics; None discards them.
        :param verbose: whether the result of every test is printed to stdout, as in Tianshou. Default: True. False does
            not hide the progress, which is ``show_progress``.
        :param show_progress: whether a progress bar of the run is shown on stderr, and a line after each epoch, unless
            ``verbose`` prints one. Where stderr is no terminal, a line once a minute replaces the bar. Default: True.
            A silent trainer has both set to False.
        :param test_in_train: whether a training collect whose mean return satisfies ``stop_fn`` is followed by a test
            at once; if that satisfies ``stop_fn`` too, training ends. This is ignored without a ``test_collector``, and
            if the ``train_collector`` has another policy.
        :param save_fn: the deprecated name of ``save_best_fn``.
        :param start_timesteps: environment steps with random actions before the first update; they count in
            ``env_step``.
        :param start_random: whether these actions are random; False for those of the policy.
        :param max_step: training stops after exactly this many environment steps; the last collect is shortened.
        :param prefetch: whether a thread draws the next sample during an update. The samples are tensors on the
            policy's device, moved in one transfer, for CUDA from page-locked memory. The results are the same; see
            :class:`~rlfast.trainer._prefetch.PrefetchedBuffer`. Not for on-policy training.
        :param data_share: the share of ``buffer`` in each batch of off-policy training, in [0, 1]; see
            :class:`~rlfast.data.MixedReplayBuffer`.
        :param callbacks: objects that are called before and after collects and tests, and after updates and
            checkpoints, in turn, before the functions above.
        :raises TypeError: an argument is of a wrong type.
        :raises ValueError: arguments contradict each other, or one is missing.
        """
        vars(self).update({name: value for name, value in locals().items() if name not in ("self", "save_fn")})
        self.save_best_fn = replaced(save_fn, save_best_fn)
        self.logger = LazyLogger() if logger is None else logger
        self._prefetched: PrefetchedBuffer | None = None
        self.callbacks = check_callbacks(callbacks)
        self._called = (*self.callbacks, Functions())
        self._check()
        self.check_ignored()
        if buffer is not None:
            self.buffer = policy.process_buffer(buffer)
        self.is_run = self._started = self._stop_asked = self._goes_on = False
        self._zero()

    def _check(self) -> None:
        check_parts(self.policy, self.logger, self.buffer, self.train_collector, self.test_collector)
        self.check_schedule()
        self.check_hooks()
        if self.test_collector is not None and self.episode_per_test is None:
            raise ArgumentError("a test_collector needs episode_per_test: how many episodes does a test take?")

    # -- the whole run -----------------------------------------------------------------------------------------------

    def reset(self) -> None:
        """Starts from the beginning: resets the counters, tests the policy, and collects ``start_timesteps``.

        With ``resume_from_log``, the counters continue from the end of the logger's data.
        """
        self._zero()
        self._started = True
        if self.train_collector is not None and (
            self.test_collector is None or getattr(self.train_collector, "policy", None) is not self.policy
        ):
            self.test_in_train = False
        if self.resume_from_log:
            self.start_epoch, self.env_step, self.gradient_step = self.logger.restore_data()
            self.epoch = self.best_epoch = self.start_epoch
            self._first_step = self._position
        if self.train_collector is not None:
            self.train_collector.reset_stat()
        if self.test_collector is not None:
            self.test_collector.reset_stat()
            returns = _returns(self._test())
            self.best_reward, self.best_reward_std = returns.mean, returns.std
        for callback in self._called:
            callback.on_best(self)
        if self.train_collector is not None and self.start_timesteps and not self.env_step:
            n_step = min(self.start_timesteps, self.max_step or self.start_timesteps)
            with finite_rewards(self.train_collector):
                stats = collect_exact_steps(self.train_collector, n_step, random=self.start_random)
            self.env_step = stats.n_collected_steps

    @property
    def is_over(self) -> bool:
        """Whether there is no epoch left, ``max_step`` is reached, or ``stop_fn`` was satisfied."""
        return self._started and self._epoch_step is None and (self.epoch >= self.max_epoch or self._must_stop)

    @property
    def _must_stop(self) -> bool:
        return self.stop_fn_flag or (self.max_step is not None and self.env_step >= self.max_step)

    def stop(self) -> None:
        """Makes a running loop end before its next collect, even within an epoch. Signal handlers may call it.

        Without a ``train_collector``, the loop ends before the next gradient step; if the sample of that was drawn
        ahead, it ends after it. A later loop, or ``run``, continues from there.
        """
        self._stop_asked = True

    def __iter__(self) -> Self:
        if not self._goes_on or self.is_over:
            self.reset()
        self._goes_on = False
        return self

    def __next__(self) -> EpochStats:
        if not self._started:
            self.reset()
        if self.is_over:
            self._stop_asked = False  # the loop that was to stop has ended
            raise StopIteration
        stats = self.execute_epoch()
        if stats is None:
            self._goes_on = True
            raise StopIteration
        return stats

    def run(self, reset_prior_to_run: bool = True) -> InfoStats:
        """Trains until the last epoch, ``max_step`` or ``stop_fn`` ends training, or :meth:`stop` is called.

        :param reset_prior_to_run: False continues a loop that was left, and does nothing after the end of training.
        :return: totals and timing.
        """
        continues = not reset_prior_to_run and self._started
        if continues and self.is_over:
            return self.info()
        self._goes_on |= continues
        self.is_run = True
        try:
            for _ in self:
                pass
        finally:
            self.is_run = False
        return self.info()

    # -- one epoch ---------------------------------------------------------------------------------------------------

    def execute_epoch(self) -> EpochStats | None:
        """Collects and updates for ``step_per_epoch`` steps, then saves and tests.

        :return: the statistics of the epoch; None if :meth:`stop` interrupted it: then the next call continues it.
        """
        self.policy.train()
        if self._epoch_step is None:
            self._begin_epoch()
        if not self._train_epoch():
            return None
        if not self.stop_fn_flag:
            self.logger.save_data(self.epoch, self.env_step, self.gradient_step, self._save_checkpoint())
            if self.test_collector is not None:
                _, self.stop_fn_flag = self.test_step()
        self._epoch_step = None
        if self.show_progress and not (self.verbose and self.test_collector is not None):
            sys.stderr.write(f"{self._epoch_line()}\n")  # where results are printed, they are this line
        info = self.info()
        self.logger.log_info_data(as_dict(info), self.epoch)
        return EpochStats(
            epoch=self.epoch,
            train_collect_stat=self._last_collect,
            test_collect_stat=self._epoch_test,
            training_stat=self._last_update,
            info_stat=info,
        )

    def _save_checkpoint(self) -> Callable[[int, int, int], str] | None:
        """Returns what saves a checkpoint, and calls the callbacks then."""
        save = self.save_checkpoint_fn
        if save is None:
            return None

        def save_and_call(epoch: int, env_step: int, gradient_step: int) -> str:
            path = save(epoch, env_step, gradient_step)
            for callback in self._called:
                callback.on_checkpoint(self, path)
            return path

        return save_and_call

    def _begin_epoch(self) -> None:
        self.epoch += 1
        self.iter_num += 1
        self._epoch_step = 0
        self._last_collect, self._last_update, self._epoch_test = CollectStatsBase(), None, None

    def _train_epoch(self) -> bool:
        """Collects and updates until the end of the epoch; returns False if :meth:`stop` interrupted it."""
        total, done = self.step_per_epoch or 0, self._epoch_step or 0
        began = self._clock()
        since = (self.start_time, self._first_step)
        with ProgressBar(
            self._length, initial=self._position, since=since, leave=False, shown=self.show_progress
        ) as bar:
            try:
                while done < total and not self._must_stop:
                    if self._stop_asked and not self._is_ahead:  # a sample that was drawn is used first
                        self._stop_asked = False
                        return False
                    steps = self._advance()
                    done = self._epoch_step = done + steps
                    bar.update(steps, self._figures(began) if self.show_progress else {})
            finally:
                self._end_prefetching()
        return True

    @property
    def _position(self) -> int:
        """How far the run is: its environment steps; its gradient steps without a ``train_collector``."""
        return self.gradient_step if self.train_collector is None else self.env_step

    @property
    def _length(self) -> int | None:
        """Where the run ends, as :attr:`_position` counts; None if its epochs are endless."""
        end: float = self.max_epoch * (self.step_per_epoch or 0)
        end += 0 if self.train_collector is None else self.start_timesteps
        if self.max_step is not None:
            rows = 1 if self.train_collector is not None else self.batch_size or len(self.buffer or ())
            end = min(end, -(-self.max_step // rows))
        return None if end == math.inf else int(end)

    def _epoch_line(self) -> str:
        """Returns a line for logs: how far the run is, the time that is left, and the newest returns."""
        parts = [progress_line(self._position, self._length, (self.start_time, self._first_step))]
        parts += [f"return {self.last_rew:.4g}"] if self.last_len else []
        if self._epoch_test is not None:
            returns = _returns(self._epoch_test)
            parts += [f"test {returns.mean:.4g} ± {returns.std:.3g}", f"best {self.best_reward:.4g}"]
        return ", ".join(parts)

    @property
    def _is_ahead(self) -> bool:
        return self._prefetched is not None and self._prefetched.is_ahead

    def _advance(self) -> int:
        """Does one training step.

        :return: how many steps of the epoch it counts for.
        """
        self._last_collect, update, self.stop_fn_flag = self.training_step()
        if update is not None:
            self._last_update = update
        return 1 if self.train_collector is None else self._last_collect.n_collected_steps

    def training_step(self) -> tuple[CollectStatsBase, TrainingStats | None, bool]:
        """Collects once, if there is a ``train_collector``, and makes the updates that follow.

        :return: the statistics of the collect; the averaged statistics of the updates, or None without an update;
            whether training is to stop.
        :raises NonFiniteError: a loss is NaN or infinite.
        """
        collected, stop = CollectStatsBase(), False
        if self.train_collector is not None:
            collected, stop = self.train_step()
            for callback in self._called:
                callback.on_step(self, collected)
        try:
            update = None if stop else self.policy_update_fn(collected)
        except NonFiniteError as error:
            where = f"at environment step {self.env_step}, after {self.gradient_step} gradient steps"
            raise NonFiniteError(f"{where}: {error}") from error
        if update is not None:
            for callback in self._called:
                callback.on_update(self, update)
        return collected, update, stop

    def _clock(self) -> Clock:
        collector = self.train_collector
        return Clock(
            seconds=time.time(),
            collecting=0.0 if collector is None else collector.collect_time,
            sampling=self.sample_time,
            learning=self.policy_update_time - self.sample_time,
            updates=self.gradient_step,
        )

    def _figures(self, began: Clock) -> dict[str, int | float | str]:
        figures: dict[str, int | float | str] = {"return": self.last_rew} if self.last_len else {}
        if self.last_test is not None:
            figures["test"] = _returns(self.last_test).mean
        if self.last_len:
            figures["len"] = self.last_len
        if self._last_update is not None:
            figures |= self._last_update.smoothed_loss
        return figures | self._clock().since(began)

    def train_step(self) -> tuple[CollectStats, bool]:
        """Collects once; with ``test_in_train``, a collect that satisfies ``stop_fn`` is followed by a test.

        :return: the statistics of the collect, and whether training is to stop.
        """
        assert self.train_collector is not None  # noqa: S101 (checked by the caller)
        for callback in self._called:
            callback.before_step(self)
        left = None if self.max_step is None else self.max_step - self.env_step
        with finite_rewards(self.train_collector):
            if left is not None and self.step_per_collect is not None and left < self._steps_of(self.step_per_collect):
                result = collect_exact_steps(self.train_collector, left)
            else:
                result = self.train_collector.collect(n_step=self.step_per_collect, n_episode=self.episode_per_collect)
        result = scalarised(result, self.reward_metric)
        self.env_step += result.n_collected_steps
        stop = False
        if result.returns_stat is not None and result.lens_stat is not None:
            self.last_rew, self.last_len = result.returns_stat.mean, result.lens_stat.mean
            if self._is_logged:
                self.logger.log_train_data(as_dict(result), self.env_step)
            if self.test_in_train and self.stop_fn is not None and self.stop_fn(self.last_rew):
                stop = self._confirms_stop()
        return result, stop

    def _steps_of(self, n_step: int) -> int:
        """Returns how many steps a collect of ``n_step`` takes: all environments take equally many."""
        envs: int = getattr(self.train_collector, "env_num", 1)
        return -(-n_step // envs) * envs

    def _confirms_stop(self) -> bool:
        returns = _returns(self._test())
        if self.stop_fn is not None and self.stop_fn(returns.mean):
            self._update_best(returns)
            return True
        self.policy.train()
        return False

    def test_step(self) -> tuple[CollectStats, bool]:
        """Tests the policy, and calls ``save_best_fn`` after a new best mean return.

        :return: the statistics of the test, and whether the best mean return satisfies ``stop_fn``.
        """
        stats = self._test()
        returns = _returns(stats)
        self._update_best(returns)
        message = (
            f"Epoch #{self.epoch}: test_reward: {returns.mean:.6f} ± {returns.std:.6f}, "
            f"best_reward: {self.best_reward:.6f} ± {self.best_reward_std:.6f} in #{self.best_epoch}"
        )
        log.info(message)
        if self.verbose:
            print(message, flush=True)  # noqa: T201
        return stats, self.stop_fn is not None and bool(self.stop_fn(self.best_reward))

    def _update_best(self, returns: SequenceSummaryStats) -> None:
        if self.best_reward < returns.mean or (math.isnan(self.best_reward) and not math.isnan(returns.mean)):
            self.best_epoch = self.epoch
            self.best_reward, self.best_reward_std = returns.mean, returns.std
            for callback in self._called:
                callback.on_best(self)

    def _test(self) -> CollectStats:
        assert self.test_collector is not None  # noqa: S101 (checked by every caller)
        assert self.episode_per_test is not None  # noqa: S101 (checked at construction)
        self._epoch_test = self.last_test = test_episode(
            self.policy,
            self.test_collector,
            self._before_test,
            self.epoch,
            self.episode_per_test,
            self.logger,
            self.env_step,
            self.reward_metric,
        )
        for callback in self._called:
            callback.on_test(self, self._epoch_test)
        return self._epoch_test

    def _before_test(self, *_: object) -> None:
        for callback in self._called:
            callback.before_test(self)

    # -- updates -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def policy_update_fn(self, collect_stats: CollectStatsBase) -> TrainingStats | None:
        """Updates the policy; called after each collect, or, without a ``train_collector``, for each step of an epoch.

        :param collect_stats: the statistics of the collect.
        :return: the averaged statistics of the updates; None if no update was made.
        """

    def _sample_and_update(self, buffer: ReplayBuffer, times: int = 1, *, following: int = 0) -> TrainingStats:
        """Makes ``times`` gradient steps, each on a new sample.

        :param following: how many samples will certainly be drawn after these, before the buffer changes.
        :return: the averaged statistics.
        """
        source = buffer
        if self.prefetch:
            source = cast("ReplayBuffer", self._prefetching(buffer).series(times + following))
        try:
            updates = [self.policy.update(sample_size=self.batch_size, buffer=source) for _ in range(times)]
        except BaseException:
            self._end_prefetching()
            raise
        return self._record(updates, gradient_steps=times)

    def _prefetching(self, buffer: ReplayBuffer) -> PrefetchedBuffer:
        policy: Any = self.policy  # of any class that learns
        device = (device_of(policy) if isinstance(policy, nn.Module) else None) or torch.device("cpu")
        if self._prefetched is None or not self._prefetched.is_of(buffer, device):
            self._end_prefetching()
            self._prefetched = PrefetchedBuffer(buffer, device)
        return self._prefetched

    def _end_prefetching(self) -> None:
        if self._prefetched is not None:
            self._prefetched.end()

    def _record(self, updates: Sequence[TrainingStats], gradient_steps: int) -> TrainingStats:
        """Counts and logs updates.

        :param updates: their statistics.
        :param gradient_steps: how many gradient steps they made in all.
        :return: the averaged statistics.
        """
        self.gradient_step += gradient_steps
        merged = self._log_updates(updates)
        self.policy_update_time += merged.train_time
        self.sample_time += getattr(merged, "sample_time", 0.0)
        return merged

    def _log_updates(self, updates: Sequence[TrainingStats]) -> TrainingStats:
        merged = self._metrics.merge(updates)
        if self._is_logged:
            self.logger.log_update_data(figures_of(merged) | learning_rates(self.policy), self.gradient_step)
        return merged

    def _update_moving_avg_stats_and_log_update_data(self, update_stat: TrainingStats) -> None:
        """Logs one update, for users' trainers written for Tianshou, which count their gradient steps themselves."""
        update_stat.smoothed_loss = self._log_updates([update_stat]).smoothed_loss

    @property
    def _gradient_step(self) -> int:
        """``gradient_step`` under its name in Tianshou, which users' trainers increment."""
        return self.gradient_step

    @_gradient_step.setter
    def _gradient_step(self, value: int) -> None:
        self.gradient_step = value

    @property
    def stat(self) -> Mapping[str, MovAvg]:
        """Moving averages of the losses, by name."""
        return self._metrics.moving

    @property
    def _is_logged(self) -> bool:
        """Whether the logger stores anything: if not, the slow conversion of statistics to dicts is skipped."""
        return type(self.logger) is not LazyLogger

    def info(self) -> InfoStats:
        """Returns totals and timing so far."""
        return gather_info(
            start_time=self.start_time,
            policy_update_time=self.policy_update_time,
            gradient_step=self.gradient_step,
            best_reward=self.best_reward,
            best_reward_std=self.best_reward_std,
            train_collector=self.train_collector,
            test_collector=self.test_collector,
            sample_time=self.sample_time,
        )


def _returns(stats: CollectStats) -> SequenceSummaryStats:
    assert stats.returns_stat is not None  # noqa: S101 (a test plays at least one episode)
    return stats.returns_stat


def __getattr__(name: str) -> Any:
    if name in {
        "OfflineTrainer",
        "OffpolicyTrainer",
        "OnpolicyTrainer",
    }:  # scripts for Tianshou import them from here, too
        return getattr(import_module("rlfast.trainer"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
