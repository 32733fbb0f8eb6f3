"""What is exported: a program from the observation of an environment to its action."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlfast._core import Network
from rlfast.data.forms import Form

Array: TypeAlias = NDArray[Any]
Doubles: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Scale:
    """A normalization of observations, computed in double precision: ``(x - mean) / deviation``, within a limit."""

    mean: Doubles
    deviation: Doubles
    limit: float | None
    """The largest magnitude of the result; None for no limit."""


@dataclass(frozen=True, kw_only=True)
class Choices:
    """Discrete actions: of each group of numbers the place of the greatest one, or a draw, plus its start."""

    slot: int
    """The slot with the numbers of all groups, one after the other."""
    sizes: Sequence[int]
    """The numbers of each group."""
    starts: Sequence[int]
    """The first action of each group."""
    logits: bool
    """Whether the numbers are logits, from which actions may be drawn."""
    shape: tuple[int, ...]
    """The shape of an action; ``()`` for a Discrete space."""


@dataclass(frozen=True, kw_only=True)
class Controls:
    """Continuous actions: means, or draws of normal distributions, which are then mapped to the environment's range."""

    mean: int
    """The slot of the means."""
    deviation: int | None
    """The slot of the standard deviations; None for actions that are never drawn."""
    squashed: bool
    """Whether the policy's actions are the hyperbolic tangents of these numbers."""
    bound: Literal["clip", "tanh"] | None
    """How they are bounded to [-1, 1]."""
    stretched: bool
    """Whether they are then stretched from [-1, 1] to the range."""
    range: tuple[Doubles, Doubles] | None
    """The least and the greatest actions, between which they are kept; None for no bounds."""
    shape: tuple[int, ...]
    """The shape of an action."""
    dtype: Literal["float32", "float64"]
    """The dtype of an action."""


@dataclass(frozen=True, kw_only=True)
class State:
    """The hidden state of a recurrent policy: numbers that are 0 where an episode begins."""

    slot: int
    """The slot of the next one."""
    size: int
    """Its numbers."""


@dataclass(frozen=True, kw_only=True)
class Program:
    """A policy, from the observation of an environment to its action, without torch.

    Slot 0 holds the prepared observation and then the hidden state, as float32, and node k computes slot k + 1.
    """

    form: Form
    """The arrays of an observation, whose numbers follow each other."""
    places: Sequence[int] | None
    """The numbers of an observation that are seen; None for all."""
    scales: Sequence[Scale]
    """Normalizations, applied one after the other."""
    nodes: Sequence[tuple[Any, ...]]
    """The nodes, as :class:`rlfast._core.Network` takes them."""
    action: Choices | Controls
    """How actions come from slots."""
    random: bool
    """Whether the policy draws its actions when it is evaluated."""
    state: State | None = None
    """The hidden state; None for a policy without one."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """What is known about the policy, as plain data, such as its environment."""

    @property
    def size(self) -> int:
        """The numbers of an observation."""
        return self.form.size

    @property
    def seen(self) -> int:
        """The numbers of a prepared observation."""
        return self.size if self.places is None else len(self.places)

    @property
    def draws(self) -> int:
        """The random numbers that a drawn action takes; 0 for actions that are never drawn."""
        if isinstance(self.action, Choices):
            return sum(self.action.sizes) * self.action.logits
        return 0 if self.action.deviation is None else math.prod(self.action.shape)

    def widths(self) -> list[int]:
        """Return the number of elements of each slot."""
        return Network(self.seen + (self.state.size if self.state else 0), self.nodes).widths
