"""Passes over a roll-out in minibatches, and summaries of their losses."""

from collections.abc import Iterator, Mapping, Sequence

import torch

from rlfast.data.stats import SequenceSummaryStats
from rlfast.utils.arguments.checks import count_of


def check_passes(batch_size: object = None, repeat: object = 1) -> None:
    """Check the arguments of passes over a roll-out.

    :param batch_size: the number of rows of a minibatch; None or 0 for all rows.
    :param repeat: the number of passes.
    :raises TypeError: one of them is not an integer.
    :raises ValueError: ``batch_size`` is negative, or ``repeat`` less than 1.
    """
    if batch_size is not None:
        count_of("batch_size", batch_size, least=0)
    count_of("repeat", repeat, least=1)


def minibatches_of(size: int, batch_size: int | None) -> Iterator[slice]:
    """Yield the rows of minibatches; the last one also has the remaining rows.

    >>> [*minibatches_of(8, 3)]
    [slice(0, 3, None), slice(3, 8, None)]
    """
    starts = range(0, max(size - (batch_size or size), 0) + 1, batch_size or size)
    for start in starts:
        yield slice(start, size if start == starts[-1] else start + starts.step)


def summaries_of(losses: Sequence[Mapping[str, torch.Tensor]]) -> dict[str, SequenceSummaryStats]:
    """Return a summary of each loss over all gradient steps. Only this waits for the device."""
    scalars = torch.stack([loss for step_losses in losses for loss in step_losses.values()])
    columns = scalars.view(len(losses), -1).T.tolist()
    return dict(zip(losses[0], map(SequenceSummaryStats.from_sequence, columns), strict=True))
