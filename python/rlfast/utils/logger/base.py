"""What a trainer tells a logger, under the names of Tianshou 1.0."""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from enum import Enum
from numbers import Number
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    SaveCheckpointFn: TypeAlias = Callable[[int, int, int], str]
    """``(epoch, env_step, gradient_step) -> path``."""

LogValue: TypeAlias = int | float | np.number[Any] | np.ndarray[Any, Any]
# As scripts for Tianshou 1.0 spell it, the second for isinstance:
VALID_LOG_VALS_TYPE: TypeAlias = LogValue
VALID_LOG_VALS = (int, float, Number, np.number, np.ndarray)

#: Arrays by name, nested where the names had slashes.
TRestoredData: TypeAlias = "dict[str, NDArray[Any] | TRestoredData]"


_LAST = ("last_log_train_step", "last_log_test_step", "last_log_update_step", "last_log_info_step", "last_save_step")


@functools.cache
def _accepts(function: Callable[..., Any], name: str) -> bool:
    return name in inspect.signature(function).parameters


def _takes_scope(prepare: Callable[..., Any]) -> bool:
    """Whether a ``prepare_dict_for_logging`` has the parameters of Tianshou 1.0's."""
    return _accepts(getattr(prepare, "__func__", prepare), "parent_key")


class LogWarning(UserWarning):
    """A log is not what was written into it."""


class DataScope(Enum):
    """What a figure is about, and the first part of its name."""

    TRAIN = "train"
    TEST = "test"
    UPDATE = "update"
    INFO = "info"


class BaseLogger(ABC):
    """Takes the figures of a run; :meth:`write` says where they go.

    Each kind of figure has an axis of its own, and nothing is written within one interval of what was written last.

    :param train_interval: environment steps between two entries of collecting.
    :param test_interval: environment steps between two entries of testing.
    :param update_interval: gradient steps between two entries of updating.
    :param info_interval: epochs between two entries of timing and totals.
    :param exclude_arrays: whether arrays are left out of what is written.
    """

    def __init__(
        self,
        train_interval: int = 1000,
        test_interval: int = 1,
        update_interval: int = 1000,
        info_interval: int = 1,
        exclude_arrays: bool = True,
    ) -> None:
        self.train_interval = train_interval
        self.test_interval = test_interval
        self.update_interval = update_interval
        self.info_interval = info_interval
        self.exclude_arrays = exclude_arrays
        self.last_log_train_step = -1
        self.last_log_test_step = -1
        self.last_log_update_step = -1
        self.last_log_info_step = -1

    @abstractmethod
    def write(self, step_type: str, step: int, data: dict[str, LogValue]) -> None:
        """Writes one entry.

        :param step_type: kind and axis, such as ``train/env_step``.
        :param step: position on that axis.
        :param data: figures by name.
        """

    @staticmethod
    def prepare_dict_for_logging(
        input_dict: Mapping[str, Any], parent_key: str = "", delimiter: str = "/", exclude_arrays: bool = True
    ) -> dict[str, LogValue]:
        """Flattens nested dicts and keeps the numbers.

        :param input_dict: figures, nested or not.
        :param parent_key: put before every name.
        :param delimiter: stands between the names of the levels.
        :param exclude_arrays: whether arrays are left out.

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
        """Takes what a training collect gave, at environment step ``step``."""
        if step - self.last_log_train_step >= self.train_interval:
            self._write(DataScope.TRAIN, "env_step", step, log_data)
            self.last_log_train_step = step

    def log_test_data(self, log_data: dict[str, Any], step: int) -> None:
        """Takes what a test gave, at environment step ``step``."""
        if step - self.last_log_test_step >= self.test_interval:
            self._write(DataScope.TEST, "env_step", step, log_data)
            self.last_log_test_step = step

    def log_update_data(self, log_data: dict[str, Any], step: int) -> None:
        """Takes what the updates after a collect gave, at gradient step ``step``."""
        if step - self.last_log_update_step >= self.update_interval:
            self._write(DataScope.UPDATE, "gradient_step", step, log_data)
            self.last_log_update_step = step

    def log_info_data(self, log_data: dict[str, Any], step: int) -> None:
        """Takes totals and timing at the end of epoch ``step``."""
        if step - self.last_log_info_step >= self.info_interval:
            self._write(DataScope.INFO, "epoch", step, log_data)
            self.last_log_info_step = step

    def _write(self, scope: DataScope, axis: str, step: int, data: dict[str, Any]) -> None:
        if _takes_scope(self.prepare_dict_for_logging):
            # A subclass's own __init__ need not call ours.
            exclude = getattr(self, "exclude_arrays", True)
            data = self.prepare_dict_for_logging(data, parent_key=scope.value, exclude_arrays=exclude)
        else:  # overridden as Tianshou 1.1 has it, where `write` names the scope
            data = self.prepare_dict_for_logging(data)
        self.write(f"{scope.value}/{axis}", step, data)

    @abstractmethod
    def save_data(
        self, epoch: int, env_step: int, gradient_step: int, save_checkpoint_fn: SaveCheckpointFn | None = None
    ) -> None:
        """Lets ``save_checkpoint_fn`` save the run, and remembers where it stood."""

    @abstractmethod
    def restore_data(self) -> tuple[int, int, int]:
        """Gives epoch, environment step and gradient step of the last :meth:`save_data`; zeros when there is none."""

    def state_dict(self) -> dict[str, Any]:
        """Where writing stands, as plain data: when each kind of figure was written last."""
        return {name: getattr(self, name) for name in _LAST if hasattr(self, name)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on where :meth:`state_dict` was taken; what was written since then is taken back, where it can be.

        A log that ends before that point is gone on with, with a :class:`LogWarning`.

        :raises ValueError: the state or the log is damaged; nothing is changed then.
        """
        self.check_state_dict(state)
        for name in _LAST:
            if name in state:
                setattr(self, name, state[name])

    def check_state_dict(self, state: dict[str, Any]) -> None:
        """Compares the state with the log before anything changes.

        :raises ValueError: it is damaged.
        """
        given: Any = state  # a logger of one's own may keep anything
        for name in _LAST if isinstance(given, dict) else ():
            if type(given.get(name, 0)) is not int:
                raise ValueError(f"{name} of a log cannot be {given[name]!r:.50}")

    def close(self) -> None:  # noqa: B027 (few have something to release)
        """Writes what is held back and releases files."""

    def finalize(self) -> None:
        """Does what :meth:`close` does."""
        self.close()

    @staticmethod
    def restore_logged_data(log_path: str) -> TRestoredData:
        """Gives what was written, as arrays by name, nested where names have slashes.

        :param log_path: the folder that was written to.
        :raises NotImplementedError: of this kind of log nothing can be read back.
        """
        raise NotImplementedError(f"this logger reads nothing back; look at the files in {log_path} yourself")


class LazyLogger(BaseLogger):
    """Writes nothing."""

    def write(self, step_type: str, step: int, data: dict[str, LogValue]) -> None:
        """Writes nothing."""

    def save_data(
        self, epoch: int, env_step: int, gradient_step: int, save_checkpoint_fn: SaveCheckpointFn | None = None
    ) -> None:
        """Calls ``save_checkpoint_fn``."""
        if save_checkpoint_fn is not None:
            save_checkpoint_fn(epoch, env_step, gradient_step)

    def restore_data(self) -> tuple[int, int, int]:
        """Gives zeros."""
        return 0, 0, 0

    @staticmethod
    def restore_logged_data(log_path: str) -> TRestoredData:  # noqa: ARG004
        """Gives nothing."""
        return {}


class LoggerGroup(BaseLogger):
    """Several loggers as one; each keeps its own intervals.

    :param loggers: take everything; the first of them saves and restores.
    :raises ValueError: there is none.
    """

    def __init__(self, loggers: Sequence[BaseLogger]) -> None:
        super().__init__()
        if not loggers:
            raise ValueError("a LoggerGroup needs at least one logger; LazyLogger writes nothing")
        self.loggers = list(loggers)

    def write(self, step_type: str, step: int, data: dict[str, LogValue]) -> None:
        """Writes to all of them, whatever their intervals."""
        for logger in self.loggers:
            logger.write(step_type, step, data)

    def log_train_data(self, log_data: dict[str, Any], step: int) -> None:
        """Passes on to all."""
        for logger in self.loggers:
            logger.log_train_data(log_data, step)

    def log_test_data(self, log_data: dict[str, Any], step: int) -> None:
        """Passes on to all."""
        for logger in self.loggers:
            logger.log_test_data(log_data, step)

    def log_update_data(self, log_data: dict[str, Any], step: int) -> None:
        """Passes on to all."""
        for logger in self.loggers:
            logger.log_update_data(log_data, step)

    def log_info_data(self, log_data: dict[str, Any], step: int) -> None:
        """Passes on to all."""
        for logger in self.loggers:
            logger.log_info_data(log_data, step)

    def save_data(
        self, epoch: int, env_step: int, gradient_step: int, save_checkpoint_fn: SaveCheckpointFn | None = None
    ) -> None:
        """Saves through the first; the others only note where the run stood."""
        for logger in self.loggers:
            logger.save_data(epoch, env_step, gradient_step, save_checkpoint_fn)
            save_checkpoint_fn = save_checkpoint_fn and (lambda *_: "")

    def restore_data(self) -> tuple[int, int, int]:
        """Asks all, so that each continues its axis, and gives the answer of the first."""
        first, *_ = [logger.restore_data() for logger in self.loggers]
        return first

    def state_dict(self) -> dict[str, Any]:
        """Of all."""
        return {"loggers": [logger.state_dict() for logger in self.loggers]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Of all.

        :raises ValueError: there were more loggers, or fewer, or one is damaged; nothing is changed then.
        """
        self.check_state_dict(state)
        for logger, own in zip(self.loggers, state["loggers"], strict=True):
            logger.load_state_dict(own)

    def check_state_dict(self, state: dict[str, Any]) -> None:
        """Of all, before one of them changes."""
        states = state.get("loggers", ())
        if len(states) != len(self.loggers):
            raise ValueError(f"got the state of {len(states)} loggers for {len(self.loggers)}")
        for logger, own in zip(self.loggers, states, strict=True):
            if hasattr(logger, "check_state_dict"):  # a stranger's may have none
                logger.check_state_dict(own)

    def close(self) -> None:
        """Closes all."""
        for logger in self.loggers:
            logger.close()
