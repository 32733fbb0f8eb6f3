"""Batches as networks and ``forward`` take them."""

from typing import Any

import numpy as np
import torch

from rlfast.data import Batch, to_torch


def as_batch(obs: Any) -> Batch:
    """Return observations as the batch that ``forward`` takes.

    :param obs: observations, ``[B, ...]``.
    """
    return Batch(obs=obs, info=[None] * len(obs))


def moved_once(obs: object, device: torch.device) -> Any:
    """Return observations that many networks and minibatches take: an array as a tensor on their device, unless this is
    the CPU; anything else as it is.

    :param obs: observations.
    :param device: the device of the networks.
    """
    return to_torch(obs, device=device) if device.type != "cpu" and isinstance(obs, np.ndarray) else obs


def info_of(batch: Any) -> Any:
    """Return the infos of a sample, for networks; an empty dict if it has none.

    :param batch: the sample; None within a graph.
    """
    return {} if batch is None else batch.get("info", {})
