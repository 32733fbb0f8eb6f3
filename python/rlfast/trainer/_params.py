"""The arguments of trainers in groups, each of which checks itself."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from rlfast.utils.checks import check_function, check_integer, check_number

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from rlfast.policy import BasePolicy
    from rlfast.utils.logger import BaseLogger


@dataclass(eq=False, repr=False, kw_only=True)
class Schedule:
    """How much is collected, learned and tested before what comes next."""

    max_epoch: int
    batch_size: int | None
    step_per_epoch: int | None
    repeat_per_collect: int | None
    episode_per_test: int | None
    update_per_step: float
    step_per_collect: int | None
    episode_per_collect: int | None
    start_timesteps: int
    max_step: int | None

    def check_schedule(self) -> None:
        """Says what no trainer can do. Counts given as whole floats, such as ``1e5``, become integers.

        :raises TypeError: a number is none, or no whole one where steps, rows or episodes are counted.
        :raises ValueError: a number is too small, or ``step_per_epoch`` is missing.
        """
        check_number("update_per_step", self.update_per_step)
        for name in (
            "max_epoch",
            "step_per_epoch",
            "repeat_per_collect",
            "episode_per_test",
            "step_per_collect",
            "episode_per_collect",
            "max_step",
        ):
            value = self._count(name, optional=name != "max_epoch")
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        for name in ("batch_size", "start_timesteps"):
            value = self._count(name, optional=name == "batch_size")
            if value is not None and value < 0:
                raise ValueError(f"{name} must not be negative, got {value}")
        if self.step_per_epoch is None:
            raise ValueError("step_per_epoch is needed: how many steps make an epoch?")

    def _count(self, name: str, *, optional: bool) -> int | None:
        value: Any = getattr(self, name)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
            setattr(self, name, value)
        check_integer(name, value, optional=optional)
        return None if value is None else int(value)

    def check_portion(self) -> None:
        """Says whether it is clear how much to collect at a time.

        :raises ValueError: not exactly one of ``step_per_collect`` and ``episode_per_collect`` is given.
        """
        if (self.step_per_collect is None) == (self.episode_per_collect is None):
            raise ValueError(
                "give one of step_per_collect and episode_per_collect, "
                f"got {self.step_per_collect} and {self.episode_per_collect}"
            )


@dataclass(eq=False, repr=False, kw_only=True)
class Hooks:
    """What the caller wants to be asked and told."""

    train_fn: Callable[[int, int], None] | None
    test_fn: Callable[[int, int | None], None] | None
    stop_fn: Callable[[float], bool] | None
    save_best_fn: Callable[[BasePolicy], None] | None
    save_checkpoint_fn: Callable[[int, int, int], str] | None
    reward_metric: Callable[[NDArray[Any]], NDArray[Any]] | None

    def check_hooks(self) -> None:
        """Says what cannot be called.

        :raises TypeError: so it is.
        """
        for field in fields(Hooks):
            check_function(field.name, getattr(self, field.name), optional=True)


@dataclass(eq=False, repr=False, kw_only=True)
class Reporting:
    """Where figures go."""

    logger: BaseLogger
    resume_from_log: bool
    verbose: bool
    show_progress: bool


def replaced(save_fn: Any, save_best_fn: Any) -> Any:
    """``save_best_fn``, which may be given under the name it had before.

    :raises ValueError: both are given.
    """
    if save_fn is None:
        return save_best_fn
    if save_best_fn is not None:
        raise ValueError("give save_best_fn alone: save_fn is its old name")
    warnings.warn("save_fn is deprecated: its name is save_best_fn now", DeprecationWarning, stacklevel=3)
    return save_fn
