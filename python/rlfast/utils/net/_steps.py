from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch

from rlfast.utils.tree import leaves, map_leaves


class Steps:
    """Steps of sequences whose outputs a recurrent network computes.

    :param rows: the sequence of each step, int64 ``[N]``.
    :param columns: the number of the step in it, int64 ``[N]``.
    """

    def __init__(self, rows: torch.Tensor, columns: torch.Tensor) -> None:
        self.rows, self.columns = rows, columns
        self.used = False
        """Whether a network has asked for them."""

    def of(self, values: Any) -> Any:
        """Return the values of these steps.

        :param values: values ``[B, T, ...]``.
        :return: ``[N, ...]``.
        """
        self.used = True
        return values[self.rows, self.columns]


_steps: ContextVar[Steps | None] = ContextVar("steps", default=None)


@contextmanager
def outputs_of(steps: Steps) -> Iterator[None]:
    """Return a context in which recurrent networks compute the outputs of some steps, ``[N, ...]``, not of the last.

    :param steps: the steps.

    >>> from rlfast.utils.net.common import Recurrent
    >>> net = Recurrent(layer_num=1, state_shape=4, action_shape=2, hidden_layer_size=8)
    >>> with outputs_of(Steps(rows=torch.tensor([0, 0, 2]), columns=torch.tensor([0, 1, 4]))):
    ...     net(torch.zeros(3, 5, 4))[0].shape
    torch.Size([3, 2])
    """
    token = _steps.set(steps)
    try:
        yield
    finally:
        _steps.reset(token)


def chosen_steps() -> Steps | None:
    """Return the steps of :func:`outputs_of`; None outside such a context."""
    return _steps.get()


def each_step(encoder: Callable[[Any], torch.Tensor], obs: Any) -> torch.Tensor:
    """Encode observations of one step, or in the context of :func:`outputs_of` those of each step of sequences.

    :param encoder: a function of observations ``[B, ...]`` that returns features ``[B, size]``.
    :param obs: observations ``[B, ...]``, or ``[B, T, ...]`` in that context: an array, a tensor, or a dict of these.
    :return: ``[B, size]`` or ``[B, T, size]``.
    """
    if torch.compiler.is_compiling() or _steps.get() is None:
        return encoder(obs)
    rows, steps = next(leaves(obs)).shape[:2]
    return encoder(map_leaves(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), obs)).reshape(rows, steps, -1)
