"""The options of buffers."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from rlfast.data.buffer.options.relabelling import Hindsight
from rlfast.data.buffer.options.samplers import Prioritized, Uniform
from rlfast.data.buffer.options.units import FrameStack, Transition, Unit
from rlfast.utils.arguments.checks import count_of

_UNIFORM, _TRANSITION = Uniform(), Transition()


@dataclass(frozen=True)
class Config:
    """The options of a buffer, except its size. A manager and its buffers share them."""

    stack_num: int = 1
    ignore_obs_next: bool = False
    save_only_last_obs: bool = False
    sample_avail: bool = False
    sampler: Uniform | Prioritized = _UNIFORM
    unit: Unit = _TRANSITION
    relabel: Hindsight | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "stack_num", count_of("stack_num", self.stack_num))
        if self.stack_num < 1:
            raise AssertionError(f"stack_num should be greater than 0, got {self.stack_num}")
        for name, kinds in (("sampler", Uniform | Prioritized), ("unit", Unit), ("relabel", Hindsight | None)):
            if not isinstance(getattr(self, name), kinds):
                raise TypeError(f"{name} must be one of {kinds}, got {getattr(self, name)!r}")

    def normalized(self) -> Config:
        """Returns the options with a ``FrameStack`` unit replaced by ``stack_num``.

        :raises ValueError: if both are given and differ.
        """
        if isinstance(self.unit, FrameStack):
            if self.stack_num not in (1, self.unit.stack_num):
                raise ValueError(f"stack_num={self.stack_num} contradicts unit={self.unit}")
            return replace(self, stack_num=self.unit.stack_num, unit=Transition())
        return self

    def options(self) -> dict[str, Any]:
        """Returns the arguments of the constructor by name; sampler, unit and relabelling only if they are not the
        defaults.
        """
        parts = {name: getattr(self, name) for name in ("sampler", "unit", "relabel")}
        given = {name: part for name, part in parts.items() if part != getattr(Config, name)}
        flags = ("stack_num", "ignore_obs_next", "save_only_last_obs", "sample_avail")
        return {name: getattr(self, name) for name in flags} | given


def ignore_unknown(buffer: object, names: Iterable[str]) -> None:
    """Warns of arguments that a buffer ignores, such as those of another class of buffers.

    :param buffer: the buffer.
    :param names: names of the arguments.
    """
    if names := sorted(names):
        warnings.warn(f"{type(buffer).__name__} ignores the arguments {', '.join(names)}", stacklevel=3)
