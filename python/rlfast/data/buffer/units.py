"""What a drawn row grows into: itself, its frame stack, its n-step transition, or a stretch of its episode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlfast.data.batch.batch import Batch
from rlfast.utils.checks import check_number, count_of


def count_at_least(part: Any, name: str, least: int) -> None:
    """Makes a field of a part the integer that is meant, such as 4 by ``4.0``.

    :raises TypeError: it is no whole number.
    :raises ValueError: it is below ``least``.
    """
    value = count_of(name, getattr(part, name))
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")
    object.__setattr__(part, name, value)  # the part is frozen


class Readable(Protocol):
    """What a unit needs of a buffer."""

    def __getitem__(self, index: NDArray[np.int64]) -> Batch:
        """Rows as fresh arrays."""

    def nstep(
        self, indices: NDArray[np.int64], n_step: int, gamma: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
        """Sums of rewards, discounts, and last rows."""

    def window(
        self, indices: NDArray[np.int64], before: int, length: int
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Rows around each, and which of them exist."""


@dataclass(frozen=True)
class Transition:
    """The row itself (with its frame stack, if the buffer has ``stack_num`` > 1)."""


@dataclass(frozen=True)
class FrameStack:
    """The row with the last ``stack_num`` frames of its episode; the same as the buffer's ``stack_num`` argument.

    :param stack_num: frames, >= 1.
    """

    stack_num: int

    def __post_init__(self) -> None:
        count_at_least(self, "stack_num", 1)


@dataclass(frozen=True)
class NStep:
    r"""The transition over the next ``n_step`` rows of the episode, or as many as exist.

    ``rew`` is :math:`\sum_{k<m} \gamma^k r_{t+k}`; ``obs_next``, ``terminated``, ``truncated`` and ``done`` are those
    of row :math:`t+m-1`; ``discount`` is :math:`\gamma^m`, or 0 if that row is terminal; ``last_index`` is its index.
    So a one-step target ``rew + discount * q(obs_next)`` is the n-step target. Sutton 1988, *Learning to Predict by the
    Methods of Temporal Differences*.

    :param n_step: rows at most, >= 1.
    :param gamma: discount factor, in [0, 1].
    """

    n_step: int
    gamma: float

    def __post_init__(self) -> None:
        count_at_least(self, "n_step", 1)
        check_number("gamma", self.gamma)
        if not 0.0 <= self.gamma <= 1.0:
            raise ValueError(f"gamma must be in [0, 1], got {self.gamma}")

    def expand(self, buffer: Readable, indices: NDArray[np.int64]) -> Batch:
        """The n-step transitions that start at ``indices``."""
        batch = buffer[indices]
        batch.rew, batch.discount, batch.last_index = buffer.nstep(indices, self.n_step, self.gamma)
        last = buffer[batch.last_index]
        for key in ("obs_next", "terminated", "truncated", "done"):
            batch[key] = last[key]
        return batch


@dataclass(frozen=True)
class Sequence:
    """``burn_in`` rows of the episode ahead of the drawn one, then ``length`` rows from it: ``[batch, burn_in +
    length]``.

    Where the episode has no such row, the nearest one inside is repeated. ``mask`` is True for rows that exist;
    ``loss_mask`` is ``mask`` without the burn-in rows, which only warm a recurrent state up (Kapturowski et al. 2019,
    *Recurrent Experience Replay in Distributed Reinforcement Learning*, section 3). A row's ``policy`` entry is what
    was stored with it, so the first row's hidden state is the one before it.

    :param length: rows to learn from, >= 1.
    :param burn_in: rows ahead of them, >= 0.
    """

    length: int
    burn_in: int = 0

    def __post_init__(self) -> None:
        count_at_least(self, "length", 1)
        count_at_least(self, "burn_in", 0)

    def expand(self, buffer: Readable, indices: NDArray[np.int64]) -> Batch:
        """The sequences around ``indices``."""
        rows, mask = buffer.window(indices, self.burn_in, self.length)
        batch = buffer[rows]
        if "weight" in batch:
            batch.weight = buffer[indices].weight  # one for each sequence: it is the anchor that was drawn
        batch.mask = mask
        batch.loss_mask = mask & (np.arange(mask.shape[1]) >= self.burn_in)
        return batch


Unit: TypeAlias = Transition | FrameStack | NStep | Sequence
