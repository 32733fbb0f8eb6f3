"""Batches as networks and ``forward`` take them."""

from typing import Any

from rlfast.data import Batch


def as_batch(obs: Any) -> Batch:
    """Return observations as the batch that ``forward`` takes.

    :param obs: observations, ``[B, ...]``.
    """
    return Batch(obs=obs, info=[None] * len(obs))


def info_of(batch: Any) -> Any:
    """Return the infos of a sample, for networks; an empty dict if it has none.

    :param batch: the sample; None within a graph.
    """
    return {} if batch is None else batch.get("info", {})
