"""The parts a buffer is made of."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rlfast.data.buffer.relabelling import Hindsight
from rlfast.data.buffer.samplers import Prioritized, Uniform
from rlfast.data.buffer.units import FrameStack, Transition, Unit
from rlfast.utils.checks import count_of

_UNIFORM, _TRANSITION = Uniform(), Transition()


@dataclass(frozen=True)
class Config:
    """What distinguishes one buffer from another of the same size; equal for a manager and all its children."""

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

    def settled(self) -> Config:
        """The same with a ``FrameStack`` unit turned into ``stack_num``."""
        if isinstance(self.unit, FrameStack):
            if self.stack_num not in (1, self.unit.stack_num):
                raise ValueError(f"stack_num={self.stack_num} contradicts unit={self.unit}")
            return replace(self, stack_num=self.unit.stack_num, unit=Transition())
        return self

    def options(self) -> dict[str, Any]:
        """Constructor arguments by name; composed parts only where they are not the usual ones."""
        parts = {name: getattr(self, name) for name in ("sampler", "unit", "relabel")}
        given = {name: part for name, part in parts.items() if part != getattr(Config, name)}
        flags = ("stack_num", "ignore_obs_next", "save_only_last_obs", "sample_avail")
        return {name: getattr(self, name) for name in flags} | given


def ignore_unknown(buffer: object, names: Iterable[str]) -> None:
    """Warns of arguments that a buffer has no use for, such as those of another kind of buffer."""
    if names := sorted(names):
        warnings.warn(f"{type(buffer).__name__} ignores the arguments {', '.join(names)}", stacklevel=3)


def draw_seed(seed: int | None) -> int:
    """The seed, or one drawn from NumPy's global generator, so that ``np.random.seed`` still repeats a run."""
    return int(np.random.randint(2**63 - 1, dtype=np.int64)) if seed is None else int(seed)
