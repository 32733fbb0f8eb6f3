"""Stacks elements of a space into arrays with its nesting, shapes and dtypes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rlfast.env.backends.base import Tree
from rlfast.env.spaces.batching import ARRAY_SPACES, Space
from rlfast.utils.tree import collate, object_array


def collate_as(space: Space, rows: Sequence[Any]) -> Tree:
    """Stacks elements of ``space`` into arrays with its nesting and dtypes.

    Elements of spaces without a shape become an array of objects.

    :param space: the space.
    :param rows: one element for each environment.
    :raises ValueError: an element does not have the shape of the space.
    :raises TypeError: an element cannot be converted to the dtype of the space without changing its numbers.
    """
    return collator(space)(rows)


def collator(space: Space, *, strict: bool = True) -> Callable[[Sequence[Any]], Tree]:
    """Makes the function that :func:`collate_as` applies, so that the space is examined only once.

    :param space: the space.
    :param strict: whether a value that does not fit the space is an error; if not, such values are stacked by
        :func:`collate`.
    :return: a function of a sequence of values.
    """
    if isinstance(space, gym.spaces.Dict):
        named = {key: collator(part, strict=strict) for key, part in space.items()}
        return lambda rows: (
            {key: part([row[key] for row in rows]) for key, part in named.items()}
            if strict or all(isinstance(row, dict) and row.keys() == named.keys() for row in rows)
            else collate(rows)
        )
    if isinstance(space, gym.spaces.Tuple):
        parts = [collator(part, strict=strict) for part in space]
        return lambda rows: (
            tuple(part([row[k] for row in rows]) for k, part in enumerate(parts))
            if strict or all(isinstance(row, tuple) and len(row) == len(parts) for row in rows)
            else collate(rows)
        )
    if not isinstance(space, ARRAY_SPACES):
        return object_array if strict else plain_collator(space)
    shape, dtype = tuple(space.shape or ()), np.dtype(space.dtype)

    def collate_leaf(rows: Sequence[Any]) -> Tree:
        try:
            leaf = np.array(rows)
        except ValueError:  # different shapes
            leaf = np.array(None)
        fitting = fitted(leaf, (len(rows), *shape), dtype)
        if fitting is not None:
            return fitting
        if not strict:
            return collate(rows)
        wrong = [one for one in (np.asarray(row) for row in rows) if one.shape != shape]
        one = wrong[0] if wrong else np.asarray(rows[0])
        message = f"got an array of shape {one.shape} and dtype {one.dtype} where the space is {space}"
        raise ValueError(message) if wrong else TypeError(message)

    return collate_leaf


def plain_collator(space: Space) -> Callable[[Sequence[Any]], Tree]:
    """Makes a function that stacks values by :func:`collate`, whatever the space says, except for tuples where a space
    says no shape, such as ``Sequence``: they stay objects, as their lengths may be equal by chance.

    :param space: the space.
    :return: a function of a sequence of values.
    """
    if not isinstance(space, gym.spaces.Dict):
        says_shape = space is None or isinstance(space, (*ARRAY_SPACES, gym.spaces.Tuple))
        return collate if says_shape else stacked_objects
    named = {key: plain_collator(part) for key, part in space.items()}
    if all(part is collate for part in named.values()):
        return collate
    return lambda rows: (
        {key: part([row[key] for row in rows]) for key, part in named.items()}
        if all(isinstance(row, dict) and row.keys() == named.keys() for row in rows)
        else collate(rows)
    )


def stacked_objects(rows: Sequence[Any]) -> Tree:
    """Stacks elements of a space that says no shape; tuples stay objects."""
    return object_array(rows) if isinstance(rows[0], tuple) else collate(rows)


def fitted(array: NDArray[Any], shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any] | None:
    """Converts an array to a dtype if it has the given shape and the conversion keeps its numbers.

    Conversions between floats may round.

    :return: the converted array; None if the shape differs or numbers would change.

    >>> fitted(np.array([1.0, 0.0]), (2,), np.dtype(bool))
    array([ True, False])
    >>> fitted(np.array([300]), (1,), np.dtype(np.uint8))
    """
    if array.shape != shape:
        return None
    if array.dtype == dtype:
        return array
    if np.can_cast(array.dtype, dtype, "safe"):
        return array.astype(dtype)
    if array.dtype.kind not in "biuf" or dtype.kind not in "biuf":
        return None
    with np.errstate(over="raise", invalid="ignore"):
        try:
            cast = array.astype(dtype)
        except FloatingPointError:
            return None
    return cast if dtype.kind == "f" or np.array_equal(cast, array) else None
