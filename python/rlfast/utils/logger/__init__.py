"""Loggers, which write the statistics of a run."""

from rlfast.utils.logger.base import BaseLogger, DataScope, LazyLogger, LoggerGroup, LogWarning
from rlfast.utils.logger.csv import CSVLogger, JSONLLogger
from rlfast.utils.runtime.extras import import_modules_on_access

__all__ = ["BaseLogger", "CSVLogger", "DataScope", "JSONLLogger", "LazyLogger", "LogWarning", "LoggerGroup"]

import_modules_on_access(__name__)
