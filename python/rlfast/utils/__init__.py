"""Small tools that every layer may use. Importing them does not import torch."""

from rlfast.utils.logger import BaseLogger, CSVLogger, JSONLLogger, LazyLogger, LoggerGroup
from rlfast.utils.logger.tensorboard import BasicLogger, TensorboardLogger
from rlfast.utils.logger.wandb import WandbLogger
from rlfast.utils.lr_scheduler import MultipleLRSchedulers
from rlfast.utils.progress import DummyTqdm, tqdm_config
from rlfast.utils.statistics import MovAvg, RunningMeanStd
from rlfast.utils.warning import deprecation

__all__ = [
    "BaseLogger",
    "BasicLogger",
    "CSVLogger",
    "DummyTqdm",
    "JSONLLogger",
    "LazyLogger",
    "LoggerGroup",
    "MovAvg",
    "MultipleLRSchedulers",
    "RunningMeanStd",
    "TensorboardLogger",
    "WandbLogger",
    "deprecation",
    "tqdm_config",
]
