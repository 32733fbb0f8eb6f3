"""Units that a drawn row is expanded to: a transition, a frame stack, an n-step transition, or a sequence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlfast.data.batch.batch import Batch
from rlfast.utils.arguments.checks import check_number, count_of


def count_at_least(part: object, name: str, least: int) -> None:
    """Converts a field of a frozen dataclass to an integer, such as ``4.0`` to 4.

    :param part: the object.
    :param name: name of the field.
    :param least: the least value allowed.
    :raises TypeError: if the value is not a whole number.
    :raises ValueError: if it is less than ``least``.
    """
    object.__setattr__(part, name, count_of(name, getattr(part, name), least=least))  # the part is frozen


class Readable(Protocol):
    """The methods of a buffer that units use."""

    def __getitem__(self, index: NDArray[np.int64]) -> Batch:
        """Returns rows as a batch of new arrays."""

    def nstep(
        self, indices: NDArray[np.int64], n_step: int, gamma: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
        """Returns sums of rewards, discounts and last rows."""

    def window(
        self, indices: NDArray[np.int64], before: int, length: int
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Returns the rows around each row, and a mask of those that exist."""

    def _joined(
        self, index: NDArray[np.int64], given: dict[str, Any], later: NDArray[np.int64], names: tuple[str, ...]
    ) -> Batch:
        """Returns rows as a batch that has the ``given`` fields, and the fields ``names`` of other rows."""

    def _weights(self, index: NDArray[np.int64]) -> NDArray[np.float64]:
        """Returns the importance weights of rows, as batches have them."""


_OF_LAST_ROW = ("obs_next", "terminated", "truncated", "done")
"""The fields of an n-step transition that are those of its last row."""


@dataclass(frozen=True)
class Transition:
    """The row itself, with its frame stack if the buffer has ``stack_num`` > 1."""


@dataclass(frozen=True)
class FrameStack:
    """The row with the last ``stack_num`` frames of its episode, as by the argument ``stack_num`` of the buffer.

    :param stack_num: number of frames, at least 1.
    """

    stack_num: int

    def __post_init__(self) -> None:
        count_at_least(self, "stack_num", 1)


@dataclass(frozen=True)
class NStep:
    r"""The transition over the next ``n_step`` rows of the episode, or as many as it has.

    ``rew`` is :math:`\sum_{k<m} \gamma^k r_{t+k}`; ``obs_next``, ``terminated``, ``truncated`` and ``done`` are those
    of row :math:`t+m-1`; ``discount`` is :math:`\gamma^m`, or 0 if that row is terminal; ``last_index`` is its index.
    The target ``rew + discount * q(obs_next)`` is thus the n-step target (Sutton 1988, *Learning to Predict by the
    Methods of Temporal Differences*).

    :param n_step: the largest number of rows, at least 1.
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
        """Returns the n-step transitions from rows on.

        :param buffer: the buffer.
        :param indices: the rows, ``[B]``.
        """
        rew, discount, last_index = buffer.nstep(indices, self.n_step, self.gamma)
        given = {"rew": rew, "discount": discount, "last_index": last_index}
        return buffer._joined(indices, given, last_index, _OF_LAST_ROW)


@dataclass(frozen=True)
class Sequence:
    """The ``burn_in`` rows before the drawn row, and the ``length`` rows from it on: ``[batch, burn_in + length]``.

    Where the episode has no such row, its nearest row is repeated. ``mask`` is True for rows that exist; ``loss_mask``
    is ``mask`` without the burn-in rows, which only compute a recurrent state (Kapturowski et al. 2019, *Recurrent
    Experience Replay in Distributed Reinforcement Learning*, section 3). The hidden state under ``policy`` of the first
    row is the one before it.

    :param length: number of rows to learn from, at least 1.
    :param burn_in: number of rows before them, at least 0.
    """

    length: int
    burn_in: int = 0

    def __post_init__(self) -> None:
        count_at_least(self, "length", 1)
        count_at_least(self, "burn_in", 0)

    def expand(self, buffer: Readable, indices: NDArray[np.int64]) -> Batch:
        """Returns the sequences around rows.

        :param buffer: the buffer.
        :param indices: the drawn rows, ``[B]``.
        """
        rows, mask = buffer.window(indices, self.burn_in, self.length)
        batch = buffer[rows]
        if "weight" in batch:
            batch.weight = buffer._weights(indices)  # one for each sequence, that of the drawn row
        batch.mask = mask
        batch.loss_mask = mask & (np.arange(mask.shape[1]) >= self.burn_in)
        return batch


Unit: TypeAlias = Transition | FrameStack | NStep | Sequence
