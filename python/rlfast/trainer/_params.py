"""The arguments of trainers, in groups that each check their own."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

from numpy.typing import NDArray

from rlfast.policy import BasePolicy
from rlfast.utils.arguments.checks import ArgumentError, check_function, check_number, count_of
from rlfast.utils.logger import BaseLogger

_LEAST = {
    "max_epoch": 0,
    "step_per_epoch": 1,
    "repeat_per_collect": 1,
    "episode_per_test": 1,
    "step_per_collect": 1,
    "episode_per_collect": 1,
    "max_step": 1,
    "batch_size": 0,
    "start_timesteps": 0,
}
_NEEDED = frozenset({"max_epoch", "start_timesteps"})
_ENDLESS = frozenset({"max_epoch", "step_per_epoch"})
_ROUNDED = {"max_epoch": math.floor, "step_per_epoch": math.ceil, "step_per_collect": math.ceil, "max_step": math.ceil}


_USUAL = {"repeat_per_collect": None, "update_per_step": 1.0, "prefetch": False, "data_share": 0.5}


class Schedule:
    """The numbers of steps, episodes and updates between collects, updates and tests."""

    ignored: ClassVar[tuple[str, ...]] = ()
    """Arguments of the constructor that a trainer does not use; it warns if one is given."""

    max_epoch: int
    batch_size: int | None
    step_per_epoch: int | None
    repeat_per_collect: int | None
    episode_per_test: int | None
    update_per_step: float
    step_per_collect: int | None
    episode_per_collect: int | None
    start_timesteps: int
    start_random: bool
    max_step: int | None

    def check_schedule(self) -> None:
        """Checks the numbers, and converts counts that are whole floats, such as ``1e5``, to integers.

        A ``max_epoch`` that is not whole is rounded down, and numbers of steps are rounded up.

        :raises TypeError: an argument is not a number, or a number of rows, episodes or passes is not whole.
        :raises ValueError: a number is too small, or ``step_per_epoch`` is missing.
        """
        check_number("update_per_step", self.update_per_step)
        for name, least in _LEAST.items():
            value: Any = getattr(self, name)
            if not ((value is None and name not in _NEEDED) or (name in _ENDLESS and value == math.inf)):
                setattr(self, name, count_of(name, value, rounded=_ROUNDED.get(name), least=least))
        if self.step_per_epoch is None:
            raise ValueError("step_per_epoch is needed: how many steps make an epoch?")

    def check_ignored(self) -> None:
        """Warns of arguments that are given and not used."""
        for name in self.ignored:
            if (value := getattr(self, name)) != _USUAL[name]:
                warnings.warn(f"{type(self).__name__} ignores {name}={value!r}: remove it", stacklevel=3)

    def check_portion(self) -> None:
        """Checks the size of a collect.

        :raises ValueError: both or none of ``step_per_collect`` and ``episode_per_collect`` are given.
        """
        if (self.step_per_collect is None) == (self.episode_per_collect is None):
            raise ArgumentError(
                "give one of step_per_collect and episode_per_collect, "
                f"got {self.step_per_collect} and {self.episode_per_collect}"
            )


class Hooks:
    """The functions that a trainer calls."""

    train_fn: Callable[[int, int], None] | None
    test_fn: Callable[[int, int | None], None] | None
    stop_fn: Callable[[float], bool] | None
    save_best_fn: Callable[[BasePolicy], None] | None
    save_checkpoint_fn: Callable[[int, int, int], str] | None
    reward_metric: Callable[[NDArray[Any]], NDArray[Any]] | None

    def check_hooks(self) -> None:
        """Checks that every hook is a function or None; other false values become None.

        :raises TypeError: a hook cannot be called.
        """
        for name in Hooks.__annotations__:
            value = getattr(self, name)
            if not callable(value) and not value:
                setattr(self, name, None)
            else:
                check_function(name, value, optional=True)


class Reporting:
    """Where a trainer reports its statistics."""

    logger: BaseLogger
    resume_from_log: bool
    verbose: bool
    show_progress: bool


def replaced(save_fn: object, save_best_fn: object) -> Any:
    """Returns ``save_best_fn``, which may be given under its old name ``save_fn``, with a warning.

    :raises ValueError: both are given.
    """
    if not save_fn:
        return save_best_fn
    if save_best_fn is not None:
        raise ArgumentError("give save_best_fn alone: save_fn is its old name")
    warnings.warn("save_fn is deprecated: its name is save_best_fn now", DeprecationWarning, stacklevel=3)
    return save_fn
