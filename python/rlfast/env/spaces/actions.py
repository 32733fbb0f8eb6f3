"""Conversions of actions into elements of their space, which are applied wherever actions go to environments."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlfast.env.spaces.collation import fitted
from rlfast.utils.arguments.checks import ArgumentError


def fitted_actions(array: NDArray[Any], space: gym.Space[Any]) -> NDArray[Any] | None:
    """Converts actions to the dtype of their space.

    Numbers for a ``Box`` of integers are rounded to the nearest integer, and those for a ``Box`` of floats may lose
    digits. No other conversion changes a number.

    :param array: actions, of any shape.
    :param space: an action space with a dtype.
    :return: the converted array, ``array`` itself if it has the dtype; None if a number cannot be converted, such as
        NaN or 300 for uint8, or 0.5 for a ``Discrete``.

    >>> fitted_actions(np.array([0.9999999, -1.5001]), gym.spaces.Box(-9, 9, (2,), np.int16))
    array([ 1, -2], dtype=int16)
    """
    if array.dtype == space.dtype:
        return array
    if array.dtype.kind == "f" and isinstance(space, gym.spaces.Box) and np.dtype(space.dtype).kind in "iu":
        array = np.rint(array)
    return fitted(array, array.shape, np.dtype(space.dtype))


def check_shape(array: NDArray[Any], space: gym.Space[Any], *, batch: bool = False) -> None:
    """Checks that actions have the shape of their space, before they go to environments. Those of a space without axes,
    such as ``Discrete``, may have any shape.

    :param array: actions, ``(..., *space.shape)``.
    :param space: the action space of one environment.
    :param batch: whether there must be at least one axis before those of the space.
    :raises ArgumentError: they have another shape.
    """
    shape = space.shape
    if shape and (array.shape[-len(shape) :] != shape or (batch and array.ndim == len(shape))):
        raise ArgumentError(
            f"actions of {space} must have the shape (..., {', '.join(map(str, shape))}), got {array.shape}: make the "
            "networks and dist_fn of the policy for this space, or override map_action"
        )


def within(array: NDArray[Any], low: ArrayLike, high: ArrayLike) -> NDArray[Any]:
    """Limits numbers to a range as ``np.clip`` does, and much faster if they are few. NaN stays NaN.

    :param array: the numbers.
    :param low: the least number, or an array of them.
    :param high: the greatest number, or an array of them.
    """
    limited: NDArray[Any] = np.minimum(np.maximum(array, low), high)
    return limited


def into_box(array: NDArray[Any], box: gym.spaces.Box) -> NDArray[Any]:
    """Replaces numbers outside a ``Box`` by the nearest bound, and rounds to the integers of a ``Box`` of integers.

    :param array: numbers ``(..., *box.shape)``.
    :param box: the space.
    :return: an array of the same shape; NaN stays NaN.
    """
    if np.dtype(box.dtype).kind == "f":
        return within(array, box.low, box.high)
    if np.isnan(array).any():
        return array
    # The greatest integers are no floats, so bounds are compared with as floats, but taken from the space.
    inside = (array > box.low) & (array < box.high)
    rounded = np.rint(np.where(inside, array, 0)).astype(box.dtype)
    return np.where(inside, rounded, np.where(array >= box.high, box.high, box.low))


def ranges(box: gym.spaces.Box) -> tuple[NDArray[Any], NDArray[Any]]:
    """Returns the least numbers of a ``Box`` and the widths of its ranges, as floats of at least 32 bits.

    :param box: the space.
    """
    dtype = np.result_type(box.dtype, np.float32)
    low = box.low.astype(dtype, copy=False)
    return low, box.high.astype(dtype, copy=False) - low


def at_shares(box: gym.spaces.Box, share: NDArray[Any]) -> NDArray[Any]:
    """Returns elements of a ``Box`` between its bounds.

    :param box: the space, with finite bounds.
    :param share: where between the bounds, 0 for the least and 1 for the greatest number, ``(..., *box.shape)``.
    :return: the elements, with the dtype of the space.

    >>> at_shares(gym.spaces.Box(-3e38, 3e38, (1,), np.float32), np.array([[0.0], [0.5], [1.0]])).tolist()
    [[-3.0000000054977558e+38], [0.0], [3.0000000054977558e+38]]
    """
    low, high = box.low.astype(np.float64), box.high.astype(np.float64)
    return into_box(low * (1.0 - share) + high * share, box).astype(box.dtype)


def shares_of(box: gym.spaces.Box, array: NDArray[Any]) -> NDArray[np.float64]:
    """Reverses :func:`at_shares`; numbers outside the ``Box`` count as the nearest bound, and 0 where bounds are equal.

    :param box: the space, with finite bounds.
    :param array: numbers ``(..., *box.shape)``.
    """
    # Halves, as the width may be more than the greatest float.
    low, high = box.low.astype(np.float64) / 2.0, box.high.astype(np.float64) / 2.0
    width = high - low
    share: NDArray[np.float64] = within((array / 2.0 - low) / np.where(width > 0, width, 1.0), 0.0, 1.0)
    return share
