"""Small tools that every layer may use. Importing them does not import torch."""

from rlfast.utils.lr_scheduler import MultipleLRSchedulers
from rlfast.utils.statistics import MovAvg, RunningMeanStd

__all__ = ["MovAvg", "MultipleLRSchedulers", "RunningMeanStd"]
