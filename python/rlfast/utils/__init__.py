"""Utilities for all other packages. Each name is imported on first access, so that importing buffers stays quick."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlfast.utils.runtime.extras import lazy_names

if TYPE_CHECKING:
    from rlfast.utils.logger import BaseLogger as BaseLogger
    from rlfast.utils.logger import CSVLogger as CSVLogger
    from rlfast.utils.logger import JSONLLogger as JSONLLogger
    from rlfast.utils.logger import LazyLogger as LazyLogger
    from rlfast.utils.logger import LoggerGroup as LoggerGroup
    from rlfast.utils.logger.tensorboard import BasicLogger as BasicLogger
    from rlfast.utils.logger.tensorboard import TensorboardLogger as TensorboardLogger
    from rlfast.utils.logger.wandb import WandbLogger as WandbLogger
    from rlfast.utils.lr_scheduler import MultipleLRSchedulers as MultipleLRSchedulers
    from rlfast.utils.progress_bar import DummyTqdm as DummyTqdm
    from rlfast.utils.progress_bar import tqdm_config as tqdm_config
    from rlfast.utils.statistics import MovAvg as MovAvg
    from rlfast.utils.statistics import RunningMeanStd as RunningMeanStd
    from rlfast.utils.warning import deprecation as deprecation

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "logger": ("BaseLogger", "CSVLogger", "JSONLLogger", "LazyLogger", "LoggerGroup"),
        "logger.tensorboard": ("BasicLogger", "TensorboardLogger"),
        "logger.wandb": ("WandbLogger",),
        "lr_scheduler": ("MultipleLRSchedulers",),
        "progress_bar": ("DummyTqdm", "tqdm_config"),
        "statistics": ("MovAvg", "RunningMeanStd"),
        "warning": ("deprecation",),
    },
)
