"""Whole runs: building, training, saving and reporting."""

from __future__ import annotations

import traceback
import warnings
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from rlfast.experiment.algorithms import algorithm_of
from rlfast.experiment.build import build, placed
from rlfast.experiment.checkpoint import load_checkpoint, save_checkpoint
from rlfast.experiment.config import DataConfig, OfflineConfig, RunWarning
from rlfast.experiment.declaration import Declaration, read_declaration
from rlfast.experiment.report.plot import learning_curve
from rlfast.experiment.report.scores import ScoringLoggers, score_of, task_of
from rlfast.experiment.run_dir import (
    check_env,
    check_files,
    make_run_dir,
    only_process,
    read_beyond,
    read_config,
    replace_file,
    write_config,
)
from rlfast.utils.logger import BaseLogger, CSVLogger, JSONLLogger, LoggerGroup
from rlfast.utils.runtime.interrupt import Interrupt

if TYPE_CHECKING:
    from pathlib import Path

    from rlfast.data.stats import CollectStats, InfoStats
    from rlfast.experiment.build import Parts
    from rlfast.experiment.config import RunConfig
    from rlfast.trainer import BaseTrainer

_INTERVALS = {"train_interval": 200, "update_interval": 100}
"""Environment steps between log entries of training returns, and gradient steps between log entries of losses."""


CHECKPOINT = "checkpoint"
"""Name of the folder of the checkpoint, in the run's folder."""

_CANNOT_RUN = (ValueError, gym.error.Error, ImportError, OSError)


class ConfigError(ValueError):
    """Settings that cannot be run, found before anything was started."""


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """The result of a run."""

    config: RunConfig
    run_dir: Path
    info: InfoStats
    env_step: int
    """Number of training steps, with the random ones at the start."""
    test: CollectStats | None
    """Statistics of the last test."""
    interrupted: bool
    """Whether a signal ended the run."""
    unsaved: str | None = None
    """The reason why there is no checkpoint of the last step; None if there is one."""

    @property
    def reached(self) -> bool:
        """Whether the mean return of the last test was at least ``stop_return``."""
        target, returns = self.config.stop_return, None if self.test is None else self.test.returns_stat
        return target is not None and returns is not None and returns.mean >= target

    def summary(self) -> str:
        """Returns a summary in a few lines."""
        config, timing = self.config, self.info.timing
        speed = self.env_step / timing.train_time if timing.train_time else 0.0
        seconds = (
            f"{timing.total_time:.1f} s: collecting {timing.train_time_collect:.1f}, "
            f"updating {timing.train_time_update:.1f}, testing {timing.test_time:.1f}"
        )
        lines = {
            "mean return": self._test_summary(),
            **self._score(),
            "environment steps": f"{self.env_step:,} ({speed:,.0f} per second of training)",
            "gradient steps": f"{self.info.gradient_step:,}",
            "time": seconds,
            "run folder": str(self.run_dir),
        }
        if isinstance(config, OfflineConfig):
            del lines["environment steps"]
        title = f"{algorithm_of(config).title} on {config.env}, seed {config.seed}" + (
            ", interrupted" if self.interrupted else ""
        )
        return "\n".join([title, *(f"  {name:<20}{text}" for name, text in lines.items())])

    def _score(self) -> dict[str, str]:
        """Returns a line with the normalized score of a run that learned from data, if there is one for its task."""
        task = _scored_task(self.config)
        if task is None or self.test is None or self.test.returns_stat is None:
            return {}
        return {
            "normalized score": f"{score_of(task, self.test.returns_stat.mean):.1f}, where an expert of D4RL has 100"
        }

    def _test_summary(self) -> str:
        if self.test is None or self.test.returns_stat is None:
            return "not tested"
        returns, target = self.test.returns_stat, self.config.stop_return
        verdict = "" if target is None else f", {'reached' if self.reached else 'below'} {target:g}"
        return f"{returns.mean:.1f} ± {returns.std:.1f} over {len(self.test.returns)} test episodes{verdict}"


def train(config: RunConfig, declaration: Declaration | None = None) -> RunResult:
    """Trains a policy, and writes logs, checkpoints and the learning curve to the folder of the run.

    SIGINT and SIGTERM end it after the current step. Checkpoint and learning curve are written then, too, and
    :func:`resume` continues the run. The traceback of an error is written to ``error.log``.

    :param config: the settings of the run.
    :param declaration: makes what the settings do not say. Default: they say all.
    :return: the result.
    :raises ConfigError: if the settings cannot be run; nothing was started then.
    """
    algorithm = algorithm_of(config)
    declaration = declaration or Declaration()
    try:
        if isinstance(config, DataConfig) and config.data is None:
            raise ValueError(f"--data is needed: {algorithm.title} learns from a buffer's file or a dataset")
        parts = build(config, declaration)
        run_dir = make_run_dir(config, algorithm.name)
        config = replace(config, run_dir=run_dir)
        write_config(run_dir, config, algorithm.name, declaration.beyond)
        declaration.save(run_dir)
    except _CANNOT_RUN as error:
        raise ConfigError(str(error)) from error
    return _run_and_close(config, run_dir, parts, checkpoint=None)


def resume(run_dir: Path, *, allow_import: bool = False, **changes: Any) -> RunResult:
    """Continues a run from its checkpoint as if it had never stopped.

    Entries of logs after the checkpoint are removed. Warnings name parts that cannot be restored, such as environments
    with simulators in other languages. With a warning, a run that was stopped before its first checkpoint begins anew,
    and a run from a device that this machine does not have continues on the CPU.

    :param run_dir: the folder of the run.
    :param allow_import: whether the module in an environment's id such as ``"module:Env-v0"`` may be imported, and the
        objects of a declaration unpickled, which runs code that the folder names.
    :param changes: settings to change, such as ``max_steps`` or ``device``.
    :return: the result.
    :raises ConfigError: if there is no such run, its checkpoint cannot be used, or a change is not possible; nothing
        was started then.
    """
    try:
        config = replace(read_config(run_dir), run_dir=run_dir, **changes)
        if "env" not in changes:
            check_env(run_dir, config.env, allow_import=allow_import)
        here = placed(config, changes.get("device"))
        check_files(run_dir)
        saved = any((run_dir / name).exists() for name in (CHECKPOINT, CHECKPOINT + ".old"))
        if not saved and any(CSVLogger(run_dir / "metrics.csv").restore_data()):
            raise FileNotFoundError(f"the checkpoint of {run_dir} is gone: put it back, or start another run")
        declaration = read_declaration(run_dir, read_beyond(run_dir), allow_import=allow_import)
        parts = build(here, declaration)
    except (*_CANNOT_RUN, TypeError) as error:
        raise ConfigError(str(error)) from error
    if not saved:
        warnings.warn(f"{run_dir} was stopped before its first checkpoint: it begins anew", RunWarning, stacklevel=2)
    return _run_and_close(here, run_dir, parts, checkpoint=run_dir / CHECKPOINT if saved else None, written=config)


def _run_and_close(
    config: RunConfig, run_dir: Path, parts: Parts, checkpoint: Path | None, written: RunConfig | None = None
) -> RunResult:
    """Runs the training, writes the traceback of an error, and closes everything.

    :param written: the settings for ``config.json``, if they differ from ``config``, such as in the device.
    """
    try:
        with ExitStack() as held:
            try:
                held.enter_context(only_process(run_dir))
            except OSError as error:
                raise ConfigError(str(error)) from error
            return _run(config, run_dir, parts, checkpoint, written or config)
    except ConfigError:
        raise
    except Exception as error:
        with suppress(OSError):  # the disk may be full
            replace_file(run_dir / "error.log", traceback.format_exc().encode())
            error.add_note(f"(traceback in {run_dir / 'error.log'})")
        raise
    finally:
        parts.close()


def _run(config: RunConfig, run_dir: Path, parts: Parts, checkpoint: Path | None, written: RunConfig) -> RunResult:
    if checkpoint is None:  # removes the logs of a run that was stopped before its first checkpoint
        for path in (run_dir / "metrics.csv", run_dir / "metrics.jsonl", *run_dir.glob("events.out.tfevents.*")):
            path.unlink(missing_ok=True)
    declaration = parts.declaration
    logger = _loggers(run_dir, config, declaration)
    try:
        saver = _CheckpointSaver(config, run_dir)
        trainer = _trainer(config, parts, logger, saver)
        if checkpoint is not None:
            _load(checkpoint, trainer)
            write_config(run_dir, written, algorithm_of(config).name, declaration.beyond)  # with the changes
            if trainer.is_over:
                warnings.warn(
                    f"the run had ended at step {trainer.env_step}: nothing was left to do", RunWarning, stacklevel=2
                )
        declaration.begin(trainer)
        interrupt = _loop(trainer, saver)
    finally:
        logger.close()
    _draw(config, run_dir)
    return RunResult(
        config=config,
        run_dir=run_dir,
        info=trainer.info(),
        env_step=trainer.env_step,
        test=trainer.last_test,
        interrupted=interrupt.aborted or (interrupt.happened and not trainer.is_over),
        unsaved="it was interrupted at once" if interrupt.aborted else saver.failure,
    )


def _draw(config: RunConfig, run_dir: Path) -> None:
    title = f"{algorithm_of(config).title}, {config.env}, seed {config.seed}"
    try:
        learning_curve(run_dir, title=title, target=config.stop_return)
    except (ValueError, OSError) as error:  # the run has succeeded without the picture
        warnings.warn(f"the learning curve could not be drawn: {error}", RunWarning, stacklevel=2)


def _load(checkpoint: Path, trainer: BaseTrainer) -> None:
    try:
        lost = load_checkpoint(checkpoint, trainer)
    except (ValueError, FileNotFoundError) as error:
        raise ConfigError(str(error)) from error
    for sentence in lost:
        warnings.warn(f"not resumed exactly: {sentence}", RunWarning, stacklevel=2)


def _loop(trainer: BaseTrainer, saver: _CheckpointSaver) -> Interrupt:
    """Trains to the end or to the first signal, and saves a checkpoint; a second signal ends it at once."""
    with Interrupt(trainer.stop) as interrupt:
        try:
            if not trainer.is_over:
                for _ in trainer:
                    pass
            saver.save(trainer)
        except KeyboardInterrupt:
            interrupt.happened = interrupt.aborted = True
    return interrupt


class _CheckpointSaver:
    """Saves checkpoints. If saving fails, training continues, and the previous checkpoint stays."""

    def __init__(self, config: RunConfig, run_dir: Path) -> None:
        self.folder, self._save_buffer = run_dir / CHECKPOINT, config.save_buffer
        self.failure: str | None = None

    def save(self, trainer: BaseTrainer) -> str:
        try:
            save_checkpoint(self.folder, trainer, save_buffer=self._save_buffer)
            self.failure = None
        except (OSError, ValueError) as error:  # a full disk, or weights that are NaN
            self.failure = str(error)
            warnings.warn(
                f"the checkpoint of step {trainer.env_step} could not be written, the one before it stays: {error}",
                RunWarning,
                stacklevel=2,
            )
        return str(self.folder)


def _trainer(config: RunConfig, parts: Parts, logger: BaseLogger, saver: _CheckpointSaver) -> BaseTrainer:
    def is_reached(mean_return: float) -> bool:
        return config.stop_return is not None and mean_return >= config.stop_return

    def save(*_: int) -> str:
        return saver.save(trainer)

    given: dict[str, Any] = {
        "policy": parts.policy,
        "max_epoch": config.max_steps,  # never reached, as an epoch has at least one step
        "train_collector": parts.train_collector,
        "test_collector": parts.test_collector,
        "step_per_epoch": config.eval_interval,
        "episode_per_test": config.eval_episodes,
        "train_fn": parts.before_collect,
        "test_fn": parts.before_test,
        "stop_fn": is_reached,
        "save_checkpoint_fn": save,
        "logger": logger,
        "verbose": False,
        "show_progress": config.progress,
        "max_step": config.max_steps * (config.batch_size if isinstance(config, OfflineConfig) else 1),  # rows
        "test_in_train": False,  # tests run at their intervals only, not after a good training episode
        "prefetch": config.device != "cpu",
    }
    trainer: BaseTrainer = parts.trainer(**given | parts.declaration.trainer_options(parts, logger))
    return trainer


def _scored_task(config: RunConfig) -> str | None:
    return task_of(config.env) if isinstance(config, DataConfig) else None


def _loggers(run_dir: Path, config: RunConfig, declaration: Declaration) -> BaseLogger:
    from torch.utils.tensorboard import SummaryWriter

    from rlfast.utils.logger.tensorboard import TensorboardLogger

    loggers = [
        CSVLogger(run_dir / "metrics.csv", **_INTERVALS),
        JSONLLogger(run_dir / "metrics.jsonl", **_INTERVALS),
        TensorboardLogger(SummaryWriter(run_dir), **_INTERVALS, write_flush=False),
        *declaration.loggers(run_dir),
    ]
    task = _scored_task(config)
    return LoggerGroup(loggers) if task is None else ScoringLoggers(loggers, task)
