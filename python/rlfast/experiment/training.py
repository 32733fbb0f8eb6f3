"""The training of a run: its trainer, its logs and its checkpoints."""

from __future__ import annotations

import math
import secrets
import warnings
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

from rlfast.experiment.checkpoint import read_test, save_checkpoint, save_policy
from rlfast.experiment.config import OnPolicyConfig, RunWarning
from rlfast.experiment.report.filming import Filming
from rlfast.experiment.report.result import place, scored_task
from rlfast.experiment.report.scores import RunLoggers
from rlfast.experiment.run_dir import BEST, CHECKPOINT
from rlfast.trainer import Callback
from rlfast.utils.logger import CSVLogger, JSONLLogger
from rlfast.utils.runtime.interrupt import Interrupt

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rlfast.experiment.build import Parts
    from rlfast.experiment.config import RunConfig
    from rlfast.experiment.declaration import Declaration
    from rlfast.trainer import BaseTrainer
    from rlfast.trainer.callbacks import Training
    from rlfast.utils.logger import BaseLogger

_INTERVALS = {"train_interval": 200, "update_interval": 100}
"""Environment steps between log entries of training returns, and gradient steps between log entries of losses."""


class CheckpointSaver(Callback):
    """Saves checkpoints, and the policy with the best test. If saving fails, training continues, and the previous
    folder stays.

    :param config: the settings of the run.
    :param run_dir: the folder of the run.
    """

    def __init__(self, config: RunConfig, run_dir: Path) -> None:
        self.folder, self.best, self._config = run_dir / CHECKPOINT, run_dir / BEST, config
        self.failure: str | None = None

    def save(self, trainer: BaseTrainer) -> str:
        """Saves a checkpoint, or warns, and keeps the reason in ``failure``.

        :param trainer: what is saved.
        :return: the folder of the checkpoint.
        """
        try:
            save_checkpoint(self.folder, trainer, save_buffer=self._config.save_buffer)
            self.failure = None
        except (OSError, ValueError, TypeError) as error:  # a full disk, weights that are NaN, or objects in a column
            hint = (
                ", or train with save_buffer=False" if isinstance(error, TypeError) and self._config.save_buffer else ""
            )
            self.failure = f"{error}{hint}"
            warnings.warn(
                f"the checkpoint of {place(self._config, trainer.env_step)} could not be written, "
                f"{what_is_left(self.folder.parent)}: {self.failure}",
                RunWarning,
                stacklevel=2,
            )
        return str(self.folder)

    def on_best(self, trainer: Training) -> None:
        """Saves the policy, whose newest test is the best one so far, or warns.

        If the folder has a better one, it stays: a resumed run may not repeat the test after its checkpoint exactly.

        :param trainer: what is saved.
        """
        returns = None if trainer.last_test is None else trainer.last_test.returns_stat
        if returns is None or self._kept_return() >= returns.mean:
            return
        try:
            save_policy(self.best, cast("BaseTrainer", trainer))
        except (OSError, ValueError) as error:
            where = place(self._config, trainer.env_step)
            message = f"the best policy, of {where}, could not be written to {self.best}: {error}"
            warnings.warn(message, RunWarning, stacklevel=2)

    def _kept_return(self) -> float:
        try:
            test = read_test(self.best)
        except ValueError:  # it is damaged, and replaced
            test = None
        return -math.inf if test is None else float(test["mean"])


def what_is_left(run_dir: Path) -> str:
    """Returns what a run has after a checkpoint could not be written, in words.

    :param run_dir: the folder of the run.
    """
    left = any((run_dir / name).exists() for name in (CHECKPOINT, f"{CHECKPOINT}.old"))
    return "the one before it stays" if left else "and there is none before it"


class Course(Callback):
    """Sets what changes in the course of a run: schedules before each collect, exploration before each test.

    :param parts: the parts of the run.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def before_step(self, trainer: Training) -> None:
        """Sets the values of this environment step."""
        if self._parts.before_collect is not None:
            self._parts.before_collect(trainer.epoch, trainer.env_step)

    def before_test(self, trainer: Training) -> None:
        """Sets the values of tests."""
        if self._parts.before_test is not None:
            self._parts.before_test(trainer.epoch, trainer.env_step)


def make_trainer(
    config: RunConfig, parts: Parts, logger: BaseLogger, saver: CheckpointSaver | None = None, **options: Any
) -> BaseTrainer:
    """Returns the trainer of a run.

    :param config: the settings of the run.
    :param parts: the policy, the collectors and what belongs to them.
    :param logger: the logger.
    :param saver: saves the checkpoints. Default: nothing does.
    :param options: arguments of the trainer, which replace those of the settings and of the declaration; ``callbacks``
        are called after those of the run, and so are functions such as ``train_fn``.
    """

    def is_reached(_: float) -> bool:  # by the last test: the best one may be that of the policy before training
        returns = None if trainer.last_test is None else trainer.last_test.returns_stat
        return config.stop_return is not None and returns is not None and returns.mean >= config.stop_return

    given: dict[str, Any] = {
        "policy": parts.policy,
        "max_epoch": config.steps,  # never reached, as an epoch has at least one step
        "train_collector": parts.train_collector,
        "test_collector": parts.test_collector,
        "step_per_epoch": config.eval_interval,
        "episode_per_test": config.eval_episodes,
        "stop_fn": is_reached,
        "save_checkpoint_fn": None if saver is None else lambda *_: saver.save(trainer),
        "logger": logger,
        "verbose": False,
        "show_progress": config.progress,
        "max_step": config.steps * (1 if config.collects else config.batch_size),  # rows
        "test_in_train": False,  # tests run at their intervals only, not after a good training episode
        "prefetch": config.device != "cpu" and not isinstance(config, OnPolicyConfig),
    }
    given |= parts.declaration.trainer_options(parts, logger) | options
    own: list[Callback] = [Course(parts)]
    if saver is not None:
        own.append(saver)
        if config.video_interval is not None:
            own.append(Filming(config, parts, saver.folder.parent))
    trainer: BaseTrainer = parts.trainer(**given | {"callbacks": [*own, *given.get("callbacks", ())]})
    return trainer


def make_loggers(run_dir: Path, config: RunConfig, declaration: Declaration) -> BaseLogger:
    """Returns the loggers of a run as one: files, TensorBoard events, trackers and those of the declaration.

    :param run_dir: the folder of the run.
    :param config: the settings of the run.
    :param declaration: has further loggers.
    """
    from torch.utils.tensorboard import SummaryWriter

    from rlfast.utils.logger.tensorboard import TensorboardLogger

    loggers = [
        CSVLogger(run_dir / "metrics.csv", **_INTERVALS),
        JSONLLogger(run_dir / "metrics.jsonl", **_INTERVALS),
        TensorboardLogger(SummaryWriter(run_dir), **_INTERVALS, write_flush=False),
        *_trackers(run_dir, config),
        *declaration.loggers(run_dir),
    ]
    return RunLoggers(loggers, scored_task(config))


def _trackers(run_dir: Path, config: RunConfig) -> Iterator[BaseLogger]:
    """Yields the loggers of the trackers that the settings name, with the settings and the name of the folder."""
    given: dict[str, Any] = {"name": run_dir.name, "config": asdict(config), **_INTERVALS}
    if "mlflow" in config.trackers:
        from rlfast.utils.logger.trackers import MLflowLogger

        yield MLflowLogger(**given)
    if "trackio" in config.trackers:
        from rlfast.utils.logger.trackers import TrackioLogger

        yield TrackioLogger(**given)
    if "wandb" in config.trackers:
        from rlfast.utils.logger.wandb import WandbLogger

        yield WandbLogger(**given, run_id=_wandb_id(run_dir), log_dir=str(run_dir))


def _wandb_id(run_dir: Path) -> str:
    """Returns the id of a run in Weights & Biases, which a file in its folder keeps for when it is resumed."""
    path = run_dir / "wandb-id.txt"
    if not path.exists():
        path.write_text(secrets.token_hex(8))
    return path.read_text().strip()


def train_to_end(trainer: BaseTrainer, saver: CheckpointSaver) -> Interrupt:
    """Trains to the end or to the first signal, and saves a checkpoint; a second signal ends it at once.

    :param trainer: the trainer.
    :param saver: saves the checkpoint.
    :return: which signals came.
    """
    with Interrupt(trainer.stop) as interrupt:
        try:
            if not trainer.is_over:
                for _ in trainer:
                    pass
            saver.save(trainer)
        except KeyboardInterrupt:
            interrupt.happened = interrupt.aborted = True
    return interrupt
