"""Passes over a roll-out: its rows in minibatches, and what their losses come to."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from rlfast.data.stats import SequenceSummaryStats


def minibatches_of(size: int, batch_size: int | None) -> Iterator[slice]:
    """Cut rows into minibatches, of which the last takes the rest along.

    >>> [*minibatches_of(8, 3)]
    [slice(0, 3, None), slice(3, 8, None)]
    """
    starts = range(0, max(size - (batch_size or size), 0) + 1, batch_size or size)
    for start in starts:
        yield slice(start, size if start == starts[-1] else start + starts.step)


def shuffled_minibatches(
    columns: Sequence[Any], order: Any, batch_size: int | None, device: Any
) -> Iterator[list[Any]]:
    """Give the rows of each minibatch.

    :param columns: arrays, tensors or batches of N rows each, or None.
    :param order: numbers of rows, ``[N]``.
    :param batch_size: rows in a minibatch; None for all rows.
    :param device: of the tensors among the columns.
    """
    order_there = torch.as_tensor(order, device=device)
    shuffled = [rows_of(c, order_there if isinstance(c, torch.Tensor) else order) for c in columns]
    for part in minibatches_of(len(order), batch_size):
        yield [rows_of(column, part) for column in shuffled]


def rows_of(column: Any, rows: Any) -> Any:
    """Give some rows of a column; None of one that is None."""
    return None if column is None else column[rows]


def summaries_of(losses: Sequence[Mapping[str, torch.Tensor]]) -> dict[str, SequenceSummaryStats]:
    """Give a summary of each loss over all gradient steps; the only wait for the device."""
    scalars = torch.stack([loss for step_losses in losses for loss in step_losses.values()])
    columns = scalars.view(len(losses), -1).T.tolist()
    return dict(zip(losses[0], map(SequenceSummaryStats.from_sequence, columns), strict=True))
