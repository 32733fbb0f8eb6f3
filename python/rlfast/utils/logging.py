"""Log messages of scripts: handlers, formats, and functions that run a script's main function.

All names of the standard module ``logging`` but ``log`` are here as well, so that scripts can import this module
instead; ``log`` is a logger.
"""

from __future__ import annotations

import atexit
import inspect
import logging as _logging
import sys
from collections.abc import Callable
from dataclasses import is_dataclass
from datetime import datetime
from functools import partial
from io import StringIO
from logging import *  # noqa: F403 (the names of the standard module)
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")

_log = _logging.getLogger(__name__)
log = _log  # type: ignore[assignment]  # another name of the logger

LOG_DEFAULT_FORMAT = "%(levelname)-5s %(asctime)-15s %(name)s:%(funcName)s - %(message)s"


class _State:
    """The state that the functions of this module share."""

    format = LOG_DEFAULT_FORMAT
    memory: StringIO | None = None
    paths: list[str] = []  # noqa: RUF012 (shared on purpose)


def configure(format: str = LOG_DEFAULT_FORMAT, level: int = _logging.DEBUG) -> None:
    """Sends log messages to the standard output, and nowhere else.

    :param format: the format of a message.
    :param level: messages below it are dropped.
    """
    _State.format = format
    remove_log_handlers()
    _logging.basicConfig(level=level, format=format, stream=sys.stdout)
    for name in ("numba", "matplotlib"):  # at a lower level they log each step of a compiler and each font
        _logging.getLogger(name).setLevel(_logging.INFO)


def remove_log_handlers() -> None:
    """Removes all handlers from the root logger."""
    for handler in list(_logging.getLogger().handlers):
        remove_log_handler(handler)


def remove_log_handler(handler: _logging.Handler) -> None:
    """Removes one handler from the root logger.

    :param handler: the handler.
    """
    _logging.getLogger().removeHandler(handler)


def is_log_handler_active(handler: _logging.Handler) -> bool:
    """Returns whether the root logger has the handler.

    :param handler: the handler.
    """
    return handler in _logging.getLogger().handlers


def run_main(main_fn: Callable[[], T], format: str = LOG_DEFAULT_FORMAT, level: int = _logging.DEBUG) -> T | None:
    """Configures logging and runs a function, with a log message before and after it.

    :param main_fn: the function.
    :param format: as in :func:`configure`.
    :param level: as in :func:`configure`.
    :return: the return value of the function; None if it raised an exception, which is logged.
    """
    configure(format=format, level=level)
    _log.info("Starting")
    try:
        result = main_fn()
    except Exception:
        _log.exception("Exception during script execution")
        return None
    _log.info("Done")
    return result


def run_cli(main_fn: Callable[..., T], format: str = LOG_DEFAULT_FORMAT, level: int = _logging.DEBUG) -> T | None:
    """Runs a function as :func:`run_main` does, with arguments from the command line, parsed by ``jsonargparse``.

    :param main_fn: the function. Its parameters become options, and docstrings of a dataclass's attributes their help.
        The arguments of a ``functools.partial`` are defaults.
    :param format: as in :func:`configure`.
    :param level: as in :func:`configure`.
    :return: as from :func:`run_main`.
    :raises ImportError: ``jsonargparse`` is not installed; the message says how to install it.
    """
    try:
        from jsonargparse import auto_cli, set_parsing_settings
    except ImportError as error:
        from rlfast.utils.runtime.extras import how_to_install

        raise ImportError(f"run_cli needs jsonargparse: {how_to_install('cli')}") from error
    set_parsing_settings(docstring_parse_attribute_docstrings=True)
    function, defaults = main_fn, {}
    if isinstance(main_fn, partial):  # which has no name, and jsonargparse asks for one
        function = main_fn.func
        given = inspect.signature(function).bind_partial(*main_fn.args, **main_fn.keywords).arguments
        defaults = {name: dict(vars(value)) if is_dataclass(value) else value for name, value in given.items()}
    return run_main(lambda: auto_cli(function, set_defaults=defaults), format=format, level=level)


def datetime_tag() -> str:
    """Returns the local date and time for names of files, such as ``20240131-235959``."""
    return datetime.now().strftime("%Y%m%d-%H%M%S")  # noqa: DTZ005 (local time on purpose)


def add_file_logger(path: str, register_atexit: bool = True) -> _logging.FileHandler:
    """Writes log messages to a file too.

    :param path: the path of the file; an existing file is appended to.
    :param register_atexit: whether the path is printed when the interpreter exits.
    :return: the handler, for :func:`remove_log_handler`.
    """
    _log.info("Logging to %s ...", path)
    handler = _logging.FileHandler(path)
    handler.setFormatter(_logging.Formatter(_State.format))
    _logging.getLogger().addHandler(handler)
    if register_atexit:
        if not _State.paths:
            atexit.register(_tell_paths)
        _State.paths.append(path)
    return handler


def _tell_paths() -> None:
    for path in _State.paths:
        print(f"A log file was saved to {path}")  # noqa: T201 (the handlers may be closed by then)


def add_memory_logger() -> None:
    """Keeps log messages in memory too, for :func:`get_memory_log`. A second call does nothing."""
    if _State.memory is None:
        _State.memory = StringIO()
        handler = _logging.StreamHandler(_State.memory)
        handler.setFormatter(_logging.Formatter(_State.format))
        _logging.getLogger().addHandler(handler)


def get_memory_log() -> str:
    """Returns the log messages since the call of :func:`add_memory_logger`.

    :raises AssertionError: :func:`add_memory_logger` was not called.
    """
    if _State.memory is None:
        raise AssertionError("no messages are kept: call add_memory_logger first")
    return _State.memory.getvalue()


def set_numerical_fields_to_precision(data: dict[str, Any], precision: int = 3) -> dict[str, Any]:
    """Returns a copy of a dict with rounded floats; nested values are not changed.

    :param data: the dict.
    :param precision: the number of decimal places.

    >>> set_numerical_fields_to_precision({"loss": 0.12345, "epoch": 3})
    {'loss': 0.123, 'epoch': 3}
    """
    return {key: round(value, precision) if isinstance(value, float) else value for key, value in data.items()}


class FileLoggerContext:
    """A context manager that writes log messages to a file too.

    :param path: the path of the file; an existing file is appended to.
    :param enabled: if False, the context does nothing.
    """

    def __init__(self, path: str, enabled: bool = True) -> None:
        self.enabled = enabled
        self.path = path
        self._handler: _logging.FileHandler | None = None

    def __enter__(self) -> None:
        if self.enabled:
            self._handler = add_file_logger(self.path, register_atexit=False)

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._handler is not None:
            remove_log_handler(self._handler)
            self._handler.close()
            self._handler = None
