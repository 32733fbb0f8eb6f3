"""A whole run: build, train, keep what matters on disk, and say how it went."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import gymnasium as gym

from rlfast.experiment.algorithms import algorithm_of
from rlfast.experiment.checkpoint import save_checkpoint
from rlfast.experiment.folder import make_run_dir, write_config
from rlfast.experiment.interrupt import Interrupt
from rlfast.experiment.plot import learning_curve
from rlfast.utils.logger import BaseLogger, CSVLogger, LoggerGroup

if TYPE_CHECKING:
    from pathlib import Path

    from rlfast.data.stats import CollectStats, InfoStats
    from rlfast.experiment.config import RunConfig
    from rlfast.experiment.parts import Parts
    from rlfast.trainer import BaseTrainer

_TRAIN_INTERVAL = 200
"""Environment steps between two entries of training returns in the logs."""


class ConfigError(ValueError):
    """A configuration that cannot be run, found before anything was started."""


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """How a run went."""

    config: RunConfig
    run_dir: Path
    info: InfoStats
    env_step: int
    """Training steps taken, random ones at the start included."""
    test: CollectStats | None
    """The last test."""
    interrupted: bool
    """Whether a signal ended it."""

    @property
    def reached(self) -> bool:
        """Whether the last test was as good as ``stop_return``."""
        target, returns = self.config.stop_return, None if self.test is None else self.test.returns_stat
        return target is not None and returns is not None and returns.mean >= target

    def summary(self) -> str:
        """A few lines for people."""
        config, timing = self.config, self.info.timing
        speed = self.env_step / timing.train_time if timing.train_time else 0.0
        seconds = (
            f"{timing.total_time:.1f} s: collecting {timing.train_time_collect:.1f}, "
            f"updating {timing.train_time_update:.1f}, testing {timing.test_time:.1f}"
        )
        lines = {
            "mean return": self._test_summary(),
            "environment steps": f"{self.env_step:,} ({speed:,.0f} per second of training)",
            "gradient steps": f"{self.info.gradient_step:,}",
            "time": seconds,
            "run folder": str(self.run_dir),
        }
        title = f"{algorithm_of(config).title} on {config.env}, seed {config.seed}" + (
            ", interrupted" if self.interrupted else ""
        )
        return "\n".join([title, *(f"  {name:<20}{text}" for name, text in lines.items())])

    def _test_summary(self) -> str:
        if self.test is None or self.test.returns_stat is None:
            return "not tested"
        returns, target = self.test.returns_stat, self.config.stop_return
        verdict = "" if target is None else f", {'reached' if self.reached else 'below'} {target:g}"
        return f"{returns.mean:.1f} ± {returns.std:.1f} over {len(self.test.returns)} test episodes{verdict}"


def train(config: RunConfig) -> RunResult:
    """Trains as ``config`` says and leaves everything in its run folder.

    SIGINT and SIGTERM end it after the current step; checkpoint and learning curve are written then as well. The
    traceback of an error goes to ``error.log`` there.

    :raises ConfigError: the configuration cannot be run; nothing was started.
    """
    algorithm = algorithm_of(config)
    try:
        parts = algorithm.build(config)
        run_dir = make_run_dir(config, algorithm.name)
    except (ValueError, gym.error.Error, ImportError, OSError) as error:
        raise ConfigError(str(error)) from error
    config = replace(config, run_dir=run_dir)
    try:
        write_config(run_dir, config, algorithm.name)
        return _train(config, run_dir, parts)
    except Exception as error:
        (run_dir / "error.log").write_text(traceback.format_exc())
        error.add_note(f"(traceback in {run_dir / 'error.log'})")
        raise
    finally:
        parts.close()


def _train(config: RunConfig, run_dir: Path, parts: Parts) -> RunResult:
    interrupt, test = Interrupt(), None
    logger = LoggerGroup([CSVLogger(run_dir / "metrics.csv", train_interval=_TRAIN_INTERVAL), _tensorboard(run_dir)])
    trainer = _trainer(config, run_dir, parts, logger, interrupt)
    with interrupt:
        try:
            for epoch in trainer:
                test = epoch.test_collect_stat
        except KeyboardInterrupt:
            interrupt.happened = True
        finally:
            logger.close()
    _save(run_dir, trainer)
    learning_curve(
        run_dir, title=f"{algorithm_of(config).title}, {config.env}, seed {config.seed}", target=config.stop_return
    )
    return RunResult(
        config=config,
        run_dir=run_dir,
        info=trainer.info(),
        env_step=trainer.env_step,
        test=test,
        interrupted=interrupt.happened,
    )


def _trainer(config: RunConfig, run_dir: Path, parts: Parts, logger: BaseLogger, interrupt: Interrupt) -> BaseTrainer:
    def before_collect(epoch: int, env_step: int) -> None:  # noqa: ARG001
        interrupt.check()
        if parts.before_collect is not None:
            parts.before_collect(env_step)

    def save(epoch: int, env_step: int, gradient_step: int) -> str:  # noqa: ARG001
        return _save(run_dir, trainer)

    def good_enough(mean_return: float) -> bool:
        return config.stop_return is not None and mean_return >= config.stop_return

    trainer = parts.trainer(
        policy=parts.policy,
        max_epoch=config.max_steps,  # never reached: each epoch takes a step or more
        train_collector=parts.train_collector,
        test_collector=parts.test_collector,
        step_per_epoch=config.eval_interval,
        episode_per_test=config.eval_episodes,
        train_fn=before_collect,
        stop_fn=good_enough,
        save_checkpoint_fn=save,
        logger=logger,
        verbose=False,
        show_progress=config.progress,
        max_step=config.max_steps,
    )
    return trainer


def _save(run_dir: Path, trainer: BaseTrainer) -> str:
    counters = {"epoch": trainer.epoch, "env_step": trainer.env_step, "gradient_step": trainer.gradient_step}
    save_checkpoint(run_dir / "checkpoint", trainer.policy, counters)
    return str(run_dir / "checkpoint")


def _tensorboard(run_dir: Path) -> BaseLogger:
    from torch.utils.tensorboard import SummaryWriter

    from rlfast.utils.logger.tensorboard import TensorboardLogger

    return TensorboardLogger(SummaryWriter(run_dir), train_interval=_TRAIN_INTERVAL, write_flush=False)
