"""Loggers, which write the statistics of a run."""

from rlfast.utils.logger.base import BaseLogger, DataScope, LazyLogger, LoggerGroup, LogWarning
from rlfast.utils.logger.csv import CSVLogger, JSONLLogger

__all__ = ["BaseLogger", "CSVLogger", "DataScope", "JSONLLogger", "LazyLogger", "LogWarning", "LoggerGroup"]
