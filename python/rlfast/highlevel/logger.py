"""Factories of loggers, which choose a logger by its name."""

import os
from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, InitVar, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from rlfast import utils
from rlfast.utils.logger import BaseLogger
from rlfast.utils.runtime.extras import needed_by
from rlfast.utils.string import ToStringMixin

TLogger = BaseLogger


class LoggerFactory(ToStringMixin, ABC):
    """The interface of factories that make the logger of a run."""

    @abstractmethod
    def create_logger(
        self, log_dir: str, experiment_name: str, run_id: str | None, config_dict: dict[str, Any] | None = None
    ) -> TLogger:
        """Makes the logger.

        :param log_dir: the folder for files.
        :param experiment_name: the name of the run, which may be a path.
        :param run_id: the id of a run to continue, for loggers that identify runs by an id.
        :param config_dict: the configuration of the run.
        :return: the logger.
        """

    def get_logger_class(self) -> type[TLogger]:
        """Returns the class of the loggers.

        :raises NotImplementedError: the factory does not define it.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define the class of its loggers")


@dataclass(eq=False, repr=False)
class LoggerFactoryDefault(LoggerFactory):
    """Makes loggers for TensorBoard or for Weights & Biases. The attributes may be changed later.

    :param logger_type: ``"tensorboard"``, or ``"wandb"``, which also writes files for TensorBoard.
    :param wandb_project: the project of Weights & Biases.
    :param wand_entity: the user or team of Weights & Biases.
    :param group: runs of one group are shown together by Weights & Biases.
    :param job_type: the purpose of the run, such as "train", for Weights & Biases.
    :param save_interval: epochs between two checkpoints, for Weights & Biases.
    :raises ValueError: ``logger_type`` is unknown, or it is ``"wandb"`` and there is no ``wandb_project``.
    """

    logger_type: Literal["tensorboard", "wandb"] = "tensorboard"
    wandb_project: str | None = None
    _: KW_ONLY
    wand_entity: InitVar[str | None] = None
    group: str | None = None
    job_type: str | None = None
    save_interval: int = 1

    def __post_init__(self, wand_entity: str | None) -> None:
        _check_type(self.logger_type)
        if self.logger_type == "wandb" and self.wandb_project is None:
            raise ValueError('logger_type="wandb" needs the name of a project: give wandb_project')
        self.wandb_entity = wand_entity

    def create_logger(
        self, log_dir: str, experiment_name: str, run_id: str | None, config_dict: dict[str, Any] | None = None
    ) -> TLogger:
        """Makes the logger. For Weights & Biases, this starts the run.

        :param log_dir: the folder for files, which is created.
        :param experiment_name: the name of the run in Weights & Biases, where each path separator becomes ``__``.
        :param run_id: the id of a run of Weights & Biases to continue.
        :param config_dict: shown with the run in Weights & Biases.
        :return: the logger.
        :raises ImportError: the library of the logger is not installed.
        :raises ValueError: ``logger_type`` is unknown.
        """
        kind: Any = self.get_logger_class()
        if self.logger_type == "tensorboard":
            return kind(self._writer(log_dir))  # type: ignore[no-any-return]
        Path(log_dir).mkdir(parents=True, exist_ok=True)  # Weights & Biases uses a temporary folder without this one
        name = experiment_name.replace(os.path.sep, "__")
        run = {"name": name, "run_id": run_id, "config": config_dict, "group": self.group, "job_type": self.job_type}
        account = {"entity": self.wandb_entity, "project": self.wandb_project}
        logger: utils.WandbLogger = kind(save_interval=self.save_interval, log_dir=log_dir, **run, **account)
        logger.load(self._writer(log_dir))
        return logger

    def get_logger_class(self) -> type[TLogger]:
        """Returns the class of the loggers.

        :raises ImportError: the library of the logger is not installed.
        :raises ValueError: ``logger_type`` is unknown.
        """
        _check_type(self.logger_type)
        with needed_by(f"logger_type={self.logger_type!r}"):
            import_module(self.logger_type)
            return utils.TensorboardLogger if self.logger_type == "tensorboard" else utils.WandbLogger

    def _writer(self, log_dir: str) -> Any:
        from torch.utils.tensorboard import SummaryWriter

        writer = SummaryWriter(log_dir)
        arguments = {"log_dir": log_dir, "logger_type": self.logger_type, "wandb_project": self.wandb_project}
        writer.add_text("args", str(arguments))
        return writer


def _check_type(logger_type: str) -> None:
    if logger_type not in ("tensorboard", "wandb"):
        raise ValueError(f'logger_type must be "tensorboard" or "wandb", got {logger_type!r}')
