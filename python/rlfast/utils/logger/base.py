"""The interface between trainers and loggers, under the names of Tianshou 1.0."""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from numbers import Number
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

SaveCheckpointFn: TypeAlias = Callable[[int, int, int], str]
"""``(epoch, env_step, gradient_step) -> path``."""

LogValue: TypeAlias = int | float | np.number[Any] | np.ndarray[Any, Any]
# The names of Tianshou 1.0, the second one for isinstance:
VALID_LOG_VALS_TYPE: TypeAlias = LogValue
VALID_LOG_VALS = (int, float, Number, np.number, np.ndarray)

#: Arrays by name, nested at the slashes in the names.
TRestoredData: TypeAlias = "dict[str, NDArray[Any] | TRestoredData]"


_LAST = ("last_log_train_step", "last_log_test_step", "last_log_update_step", "last_log_info_step", "last_save_step")


@functools.cache
def _accepts(function: Callable[..., Any], name: str) -> bool:
    return name in inspect.signature(function).parameters


def _takes_scope(prepare: Callable[..., Any]) -> bool:
    """Whether a ``prepare_dict_for_logging`` has the parameters that it has in Tianshou 1.0."""
    return _accepts(getattr(prepare, "__func__", prepare), "parent_key")


class LogWarning(UserWarning):
    """A log lacks entries that were written to it."""


class DataScope(Enum):
    """The kinds of statistics; the value is the first part of their names."""

    TRAIN = "train"
    TEST = "test"
    UPDATE = "update"
    INFO = "info"


class BaseLogger(ABC):
    """The base class of loggers. Subclasses implement :meth:`write`; those from whose logs training can be resumed also
    override :meth:`save_data` and :meth:`restore_data`.

    Each kind of statistics has its own axis and its own interval: an entry is dropped if the previous entry of its kind
    is less than one interval before it.

    :param train_interval: environment steps between two entries of training collects.
    :param test_interval: environment steps between two entries of tests.
    :param update_interval: gradient steps between two entries of updates.
    :param info_interval: epochs between two entries of totals and timing.
    :param exclude_arrays: whether arrays are not written.
    """

    def __init__(
        self,
        train_interval: int = 1000,
        test_interval: int = 1,
        update_interval: int = 1000,
        info_interval: int = 1,
        exclude_arrays: bool = True,
    ) -> None:
        self.train_interval, self.test_interval, self.update_interval = train_interval, test_interval, update_interval
        self.info_interval, self.exclude_arrays = info_interval, exclude_arrays
        self.last_log_train_step = self.last_log_test_step = -1
        self.last_log_update_step = self.last_log_info_step = -1

    @abstractmethod
    def write(self, step_type: str, step: int, data: dict[str, LogValue]) -> None:
        """Writes one entry.

        :param step_type: the kind and its axis, such as ``train/env_step``.
        :param step: the position on that axis.
        :param data: numbers by name.
        """

    @staticmethod
    def prepare_dict_for_logging(
        input_dict: Mapping[str, Any], parent_key: str = "", delimiter: str = "/", exclude_arrays: bool = True
    ) -> dict[str, LogValue]:
        """Flattens nested dicts and keeps the numbers.

        :param input_dict: a dict, which may be nested.
        :param parent_key: the prefix of every name.
        :param delimiter: separates the names of the levels.
        :param exclude_arrays: whether arrays are left out.
        :return: numbers by name.

        >>> BaseLogger.prepare_dict_for_logging({"loss": {"actor": 1.0, "note": "-"}, "lr": 2}, "update")
        {'update/loss/actor': 1.0, 'update/lr': 2}
        """
        flat: dict[str, LogValue] = {}
        for key, value in input_dict.items():
            name = f"{parent_key}{delimiter}{key}" if parent_key else key
            if isinstance(value, dict):
                flat |= BaseLogger.prepare_dict_for_logging(value, name, delimiter, exclude_arrays)
            elif isinstance(value, Number) or (isinstance(value, np.ndarray) and not exclude_arrays):
                flat[name] = value  # type: ignore[assignment]
        return flat

    def log_train_data(self, log_data: dict[str, Any], step: int) -> None:
        """Logs the statistics of a training collect.

        :param log_data: the statistics, which may be nested.
        :param step: the environment step.
        """
        self._log(DataScope.TRAIN, "env_step", log_data, step)

    def log_test_data(self, log_data: dict[str, Any], step: int) -> None:
        """Logs the statistics of a test.

        :param log_data: the statistics, which may be nested.
        :param step: the environment step.
        """
        self._log(DataScope.TEST, "env_step", log_data, step)

    def log_update_data(self, log_data: dict[str, Any], step: int) -> None:
        """Logs the statistics of the updates after a collect.

        :param log_data: the statistics, which may be nested.
        :param step: the gradient step.
        """
        self._log(DataScope.UPDATE, "gradient_step", log_data, step)

    def log_info_data(self, log_data: dict[str, Any], step: int) -> None:
        """Logs totals and timing at the end of an epoch.

        :param log_data: the statistics, which may be nested.
        :param step: the epoch.
        """
        self._log(DataScope.INFO, "epoch", log_data, step)

    def _log(self, scope: DataScope, axis: str, data: dict[str, Any], step: int) -> None:
        """Writes an entry, unless the previous one of its kind is less than an interval before it."""
        last = f"last_log_{scope.value}_step"
        if step - getattr(self, last) < getattr(self, f"{scope.value}_interval"):
            return
        if _takes_scope(self.prepare_dict_for_logging):
            # A subclass may have an __init__ that does not call this one.
            exclude = getattr(self, "exclude_arrays", True)
            data = self.prepare_dict_for_logging(data, parent_key=scope.value, exclude_arrays=exclude)
        else:  # overridden as Tianshou 1.1 has it, where `write` names the scope
            data = self.prepare_dict_for_logging(data)
        self.write(f"{scope.value}/{axis}", step, data)
        setattr(self, last, step)

    def save_data(
        self, epoch: int, env_step: int, gradient_step: int, save_checkpoint_fn: SaveCheckpointFn | None = None
    ) -> None:
        """Calls ``save_checkpoint_fn``. An override may also log the counters for :meth:`restore_data`.

        :param epoch: the epoch.
        :param env_step: the environment step.
        :param gradient_step: the gradient step.
        :param save_checkpoint_fn: called with these three; returns the path of the checkpoint. None for none.
        """
        if save_checkpoint_fn is not None:
            save_checkpoint_fn(epoch, env_step, gradient_step)

    def restore_data(self) -> tuple[int, int, int]:
        """Returns epoch, environment step and gradient step of the last checkpoint; zeros if there is none.

        :raises NotImplementedError: logs of this kind do not have them.
        """
        raise NotImplementedError(
            f"a {type(self).__name__} keeps no counters to resume from: override save_data and restore_data, or leave "
            "resume_from_log at False"
        )

    def state_dict(self) -> dict[str, Any]:
        """Returns the state for a checkpoint, as plain data: the step of the last entry of each kind."""
        return {name: getattr(self, name) for name in _LAST if hasattr(self, name)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a state, and deletes the entries that were written after it, if the logger can do that.

        If entries are missing that were written before the state, a :class:`LogWarning` is given.

        :param state: the return value of :meth:`state_dict`.
        :raises ValueError: the state or the log is damaged; nothing is changed then.
        """
        self.check_state_dict(state)
        for name in _LAST:
            if name in state:
                setattr(self, name, state[name])

    def check_state_dict(self, state: dict[str, Any]) -> None:
        """Checks a state without changing anything.

        :param state: the return value of :meth:`state_dict`.
        :raises ValueError: the state or the log is damaged.
        """
        given: Any = state  # the state of a user's logger may be of any type
        for name in _LAST if isinstance(given, dict) else ():
            if type(given.get(name, 0)) is not int:
                raise ValueError(f"{name} in the state of a logger must be an integer, got {given[name]!r:.50}")

    def close(self) -> None:  # noqa: B027 (few have something to release)
        """Writes buffered entries, and closes files."""

    def finalize(self) -> None:
        """Calls :meth:`close`."""
        self.close()

    @staticmethod
    def restore_logged_data(log_path: str) -> TRestoredData:
        """Reads a log.

        :param log_path: the folder of the log.
        :return: arrays by name, nested at the slashes in the names.
        :raises NotImplementedError: logs of this kind cannot be read.
        """
        raise NotImplementedError(f"this logger cannot read its logs, which are in {log_path}")


class CheckpointLogger(BaseLogger):
    """The base class of loggers that decide when a checkpoint is saved, and find the counters of the last one.

    :param train_interval: see :class:`BaseLogger`.
    :param test_interval: see :class:`BaseLogger`.
    :param update_interval: see :class:`BaseLogger`.
    :param info_interval: see :class:`BaseLogger`.
    :param save_interval: the number of epochs between two checkpoints. Default: 1.
    """

    def __init__(
        self,
        train_interval: int = 1000,
        test_interval: int = 1,
        update_interval: int = 1000,
        info_interval: int = 1,
        save_interval: int = 1,
    ) -> None:
        super().__init__(train_interval, test_interval, update_interval, info_interval)
        self.save_interval = save_interval
        self.last_save_step = -1

    def save_data(
        self, epoch: int, env_step: int, gradient_step: int, save_checkpoint_fn: SaveCheckpointFn | None = None
    ) -> None:
        """Calls ``save_checkpoint_fn`` if ``save_interval`` epochs have passed, then writes the counters."""
        if save_checkpoint_fn is not None and epoch - self.last_save_step >= self.save_interval:
            path = save_checkpoint_fn(epoch, env_step, gradient_step)
            self.last_save_step = epoch  # after the save: a run that resumes from the checkpoint writes these itself
            self._write_counters(
                {"save/epoch": epoch, "save/env_step": env_step, "save/gradient_step": gradient_step}, path
            )

    def restore_data(self) -> tuple[int, int, int]:
        """Returns epoch, environment step and gradient step of the last checkpoint; zeros if there is none."""
        counters = self._read_counters()
        epoch, env_step, gradient_step = counters
        if epoch:
            self.last_save_step = self.last_log_info_step = epoch
            self.last_log_train_step = self.last_log_test_step = env_step
            self.last_log_update_step = gradient_step
        return counters

    @abstractmethod
    def _write_counters(self, counters: dict[str, int], path: str) -> None:
        """Writes the counters of a checkpoint, which was saved to ``path``."""

    @abstractmethod
    def _read_counters(self) -> tuple[int, int, int]:
        """Returns epoch, environment step and gradient step of the last checkpoint; zeros if there is none."""


class LazyLogger(BaseLogger):
    """A logger that writes nothing."""

    def write(self, step_type: str, step: int, data: dict[str, LogValue]) -> None:
        """Writes nothing."""

    def restore_data(self) -> tuple[int, int, int]:
        """Returns zeros."""
        return 0, 0, 0

    @staticmethod
    def restore_logged_data(log_path: str) -> TRestoredData:  # noqa: ARG004
        """Returns an empty dict."""
        return {}


class LoggerGroup(BaseLogger):
    """A logger that passes everything on to several loggers, which keep their own intervals.

    :param loggers: the loggers; the first of them saves and restores checkpoints.
    :raises ValueError: the list is empty.
    """

    def __init__(self, loggers: Sequence[BaseLogger]) -> None:
        super().__init__()
        if not loggers:
            raise ValueError("a LoggerGroup needs at least one logger; LazyLogger writes nothing")
        self.loggers = list(loggers)

    def write(self, step_type: str, step: int, data: dict[str, LogValue]) -> None:
        """Writes an entry to all loggers, regardless of their intervals."""
        for logger in self.loggers:
            logger.write(step_type, step, data)

    def _log(self, scope: DataScope, axis: str, data: dict[str, Any], step: int) -> None:  # noqa: ARG002
        for logger in self.loggers:
            getattr(logger, f"log_{scope.value}_data")(data, step)

    def save_data(
        self, epoch: int, env_step: int, gradient_step: int, save_checkpoint_fn: SaveCheckpointFn | None = None
    ) -> None:
        """Saves a checkpoint through the first logger; the others only log the counters."""
        for logger in self.loggers:
            logger.save_data(epoch, env_step, gradient_step, save_checkpoint_fn)
            save_checkpoint_fn = save_checkpoint_fn and (lambda *_: "")

    def restore_data(self) -> tuple[int, int, int]:
        """Restores the counters of all loggers, and returns those of the first."""
        first, *_ = [logger.restore_data() for logger in self.loggers]
        return first

    def state_dict(self) -> dict[str, Any]:
        """Returns the states of all loggers."""
        return {"loggers": [logger.state_dict() for logger in self.loggers]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores the states of all loggers.

        :param state: the return value of :meth:`state_dict`.
        :raises ValueError: it is of another number of loggers, or one is damaged; nothing is changed then.
        """
        self.check_state_dict(state)
        for logger, own in zip(self.loggers, state["loggers"], strict=True):
            logger.load_state_dict(own)

    def check_state_dict(self, state: dict[str, Any]) -> None:
        """Checks the states of all loggers without changing anything.

        :param state: the return value of :meth:`state_dict`.
        :raises ValueError: it is of another number of loggers, or one is damaged.
        """
        states = state.get("loggers", ())
        if len(states) != len(self.loggers):
            raise ValueError(f"got the state of {len(states)} loggers for {len(self.loggers)}")
        for logger, own in zip(self.loggers, states, strict=True):
            if hasattr(logger, "check_state_dict"):  # a user's logger may lack this method
                logger.check_state_dict(own)

    def close(self) -> None:
        """Closes all loggers."""
        for logger in self.loggers:
            logger.close()
