"""A logger for Weights & Biases."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlfast.utils.logger.base import CheckpointLogger, LogValue
from rlfast.utils.logger.tensorboard import TensorboardLogger
from rlfast.utils.runtime.extras import needed_by

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

    from rlfast.utils.logger.base import TRestoredData


_AXES = {"train": "env_step", "test": "env_step", "update": "gradient_step", "info": "epoch"}


class WandbLogger(CheckpointLogger):
    """Sends statistics to Weights & Biases (the extra ``wandb``), each kind with its own axis.

    Checkpoints are uploaded as artifacts, and the local files stay. If the environment variable ``WANDB_MODE`` is
    ``offline``, nothing is sent. If the script has called ``wandb.init`` itself, that run is used, and ``project`` and
    the parameters after it are ignored.

    :param train_interval: as in :class:`BaseLogger`; so are the next three.
    :param save_interval: epochs between two checkpoints.
    :param write_flush: ignored; Weights & Biases decides when to send.
    :param project: the project. Default: the environment variable ``WANDB_PROJECT``, or ``"rlfast"``.
    :param name: the name of the run; None for one that Weights & Biases makes up.
    :param entity: the user or team.
    :param run_id: the id of a run to continue; :meth:`restore_data` returns its counters.
    :param config: shown with the run.
    :param monitor_gym: whether videos that Gymnasium records are uploaded.
    :param group: runs of one group are shown together.
    :param job_type: the purpose of the run, such as "train".
    :param disable_stats: whether statistics of the machine's load are not sent.
    :param log_dir: the folder of Weights & Biases' own files.
    :raises ImportError: Weights & Biases is not installed.
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
        super().__init__(train_interval, test_interval, update_interval, info_interval, save_interval)
        with needed_by("WandbLogger"):
            import wandb

        self.write_flush = write_flush
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
        for scope, axis in _AXES.items():
            self.wandb_run.define_metric(f"{scope}/{axis}")
            self.wandb_run.define_metric(f"{scope}/*", step_metric=f"{scope}/{axis}")

    def load(self, writer: SummaryWriter) -> None:
        """Writes the following entries to TensorBoard too. Calling it is optional.

        :param writer: a writer of TensorBoard. :meth:`close` closes it.
        """
        self.writer = writer
        self.tensorboard_logger = TensorboardLogger(writer)

    def write(self, step_type: str, step: int, data: dict[str, LogValue]) -> None:
        """Sends an entry.

        :param step_type: the kind and its axis, such as ``train/env_step``.
        :param step: the position on that axis.
        :param data: numbers by name.
        """
        self.wandb_run.log({**data, step_type: step})
        if self.tensorboard_logger is not None:
            self.tensorboard_logger.write(step_type, step, data)

    def _write_counters(self, counters: dict[str, int], path: str) -> None:
        """Uploads a checkpoint as an artifact, unless the run is offline, and logs the counters; the file stays."""
        if path and not self.wandb_run.offline:
            import wandb

            metadata = {"epoch": counters["save/epoch"], **counters, "checkpoint_path": path}
            artifact = wandb.Artifact(f"run_{self.wandb_run.id}_checkpoint", type="model", metadata=metadata)
            (artifact.add_dir if Path(path).is_dir() else artifact.add_file)(path)
            self.wandb_run.log_artifact(artifact)
        self.wandb_run.summary.update(counters)

    def _read_counters(self) -> tuple[int, int, int]:
        """Returns the counters, which are known for a run that is continued by ``run_id`` online."""
        summary = self.wandb_run.summary
        epoch, env_step, gradient_step = (
            int(summary.get(f"save/{name}") or 0) for name in ("epoch", "env_step", "gradient_step")
        )
        return epoch, env_step, gradient_step

    def close(self) -> None:
        """Sends all remaining entries, and ends the run."""
        self.wandb_run.finish()
        if self.tensorboard_logger is not None:
            self.tensorboard_logger.close()

    @staticmethod
    def restore_logged_data(log_path: str) -> TRestoredData:
        """Reads the events of the writer that :meth:`load` was given.

        :param log_path: the folder of the writer.
        :return: see :meth:`TensorboardLogger.restore_logged_data`.
        """
        return TensorboardLogger.restore_logged_data(log_path)
