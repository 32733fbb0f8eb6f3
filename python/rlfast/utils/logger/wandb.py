"""Figures for Weights & Biases."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlfast.utils.extras import needed_by
from rlfast.utils.logger.base import BaseLogger, LogValue
from rlfast.utils.logger.tensorboard import TensorboardLogger

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

    from rlfast.utils.logger.base import SaveCheckpointFn, TRestoredData


_AXES = {"train": "env_step", "test": "env_step", "update": "gradient_step", "info": "epoch"}


class WandbLogger(BaseLogger):
    """Sends figures to Weights & Biases (``pip install 'rlfast[wandb]'``), each kind on an axis of its own.

    Nothing leaves the machine with ``WANDB_MODE=offline`` in the environment.

    :param train_interval: see :class:`BaseLogger`, as are the next three.
    :param save_interval: epochs between two checkpoints.
    :param write_flush: accepted for compatibility; Weights & Biases decides when to send.
    :param project: of Weights & Biases. Default: what ``WANDB_PROJECT`` in the environment says, or ``"rlfast"``.
    :param name: of the run; by default Weights & Biases invents one.
    :param entity: user or team.
    :param run_id: goes on with this run, which makes :meth:`restore_data` find where it stood.
    :param config: shown with the run.
    :param monitor_gym: whether films that Gymnasium makes are uploaded as well.
    :param group: runs of one group are shown together.
    :param job_type: what the run is for, such as "train".
    :param disable_stats: whether the load of the machine is left out.
    :param log_dir: where Weights & Biases keeps its files.

    :raises ImportError: Weights & Biases is not installed.

    A run that the script has begun itself (``wandb.init``) is gone on with, and what describes runs is ignored.
    """

    def __init__(
        self,
        train_interval: int = 1000,
        test_interval: int = 1,
        update_interval: int = 1000,
        info_interval: int = 1,
        save_interval: int = 1000,
        write_flush: bool = True,
        project: str | None = None,
        name: str | None = None,
        entity: str | None = None,
        run_id: str | None = None,
        config: Any = None,
        monitor_gym: bool = True,
        *,
        group: str | None = None,
        job_type: str | None = None,
        disable_stats: bool = False,
        log_dir: str | None = None,
    ) -> None:
        super().__init__(train_interval, test_interval, update_interval, info_interval)
        with needed_by("WandbLogger"):
            import wandb

        self.save_interval = save_interval
        self.write_flush = write_flush
        self.last_save_step = -1
        self.tensorboard_logger: TensorboardLogger | None = None
        self.writer: SummaryWriter | None = None
        self.wandb_run: Any = wandb.run or wandb.init(
            project=project or os.getenv("WANDB_PROJECT", "rlfast"),
            name=name,
            entity=entity,
            id=run_id,
            resume="allow",
            config=config,
            monitor_gym=monitor_gym,
            group=group,
            job_type=job_type,
            dir=log_dir,
            settings=wandb.Settings(x_disable_stats=True) if disable_stats else None,
        )
        for scope, axis in (
            ("train", "env_step"),
            ("test", "env_step"),
            ("update", "gradient_step"),
            ("info", "epoch"),
        ):
            self.wandb_run.define_metric(f"{scope}/{axis}")
            self.wandb_run.define_metric(f"{scope}/*", step_metric=f"{scope}/{axis}")

    def load(self, writer: SummaryWriter) -> None:
        """Has TensorBoard get the same figures from now on, as scripts for Tianshou ask; nothing here needs it.

        :param writer: of TensorBoard. :meth:`close` closes it.
        """
        self.writer = writer
        self.tensorboard_logger = TensorboardLogger(writer)

    def write(self, step_type: str, step: int, data: dict[str, LogValue]) -> None:
        """Sends the figures with their place on the axis ``step_type``."""
        self.wandb_run.log({**data, step_type: step})
        if self.tensorboard_logger is not None:
            self.tensorboard_logger.write(step_type, step, data)

    def save_data(
        self, epoch: int, env_step: int, gradient_step: int, save_checkpoint_fn: SaveCheckpointFn | None = None
    ) -> None:
        """Calls ``save_checkpoint_fn`` when it is due, uploads what it wrote, and notes where the run stood."""
        if save_checkpoint_fn is not None and epoch - self.last_save_step >= self.save_interval:
            self._upload(save_checkpoint_fn(epoch, env_step, gradient_step), epoch)
            self.last_save_step = epoch  # only now: a run resumed from what was saved writes the marks below
            self.wandb_run.summary.update(
                {"save/epoch": epoch, "save/env_step": env_step, "save/gradient_step": gradient_step}
            )

    def _upload(self, path: str, epoch: int) -> None:
        """As an artifact, once it is at Weights & Biases; the run's own folder keeps it in any case."""
        import wandb

        if self.wandb_run.offline or not path:
            return
        artifact = wandb.Artifact(f"run_{self.wandb_run.id}_checkpoint", type="model", metadata={"epoch": epoch})
        (artifact.add_dir if Path(path).is_dir() else artifact.add_file)(path)
        self.wandb_run.log_artifact(artifact)

    def restore_data(self) -> tuple[int, int, int]:
        """Gives epoch, environment step and gradient step of the last saving, or zeros.

        Weights & Biases tells them of a ``run_id`` that is online.
        """
        summary = self.wandb_run.summary
        epoch, env_step, gradient_step = (
            int(summary.get(f"save/{name}") or 0) for name in ("epoch", "env_step", "gradient_step")
        )
        if epoch:
            self.last_save_step = self.last_log_info_step = epoch
            self.last_log_train_step = self.last_log_test_step = env_step
            self.last_log_update_step = gradient_step
        return epoch, env_step, gradient_step

    def close(self) -> None:
        """Sends what is left, and ends the run."""
        self.wandb_run.finish()
        if self.tensorboard_logger is not None:
            self.tensorboard_logger.close()

    @staticmethod
    def restore_logged_data(log_path: str) -> TRestoredData:
        """Gives what the writer given to :meth:`load` wrote; see :meth:`TensorboardLogger.restore_logged_data`."""
        return TensorboardLogger.restore_logged_data(log_path)
