"""Masks of legal actions in observations."""

from typing import Any

import numpy as np

from rlfast.data.batch.batch import Batch


def mask_of(obs: object) -> Any:
    """Return the mask of legal actions.

    :param obs: observations; a ``Batch`` may have ``mask``, ``[B, actions]`` with True for legal actions.
    :return: bool ``[B, actions]``, an array or a tensor like ``obs.mask``; None without a mask.
    """
    if not isinstance(obs, Batch) or "mask" not in obs:
        return None
    mask = obs.mask
    return mask.astype(bool, copy=False) if isinstance(mask, np.ndarray) else mask.bool()
