"""Batches values of several environments: dicts and tuples stay nested, and each leaf becomes one array."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rlfast.env.backends.base import Tree
from rlfast.env.spaces import ARRAY_SPACES, Space
from rlfast.env.worker import stack


def collate(rows: Sequence[Any]) -> Tree:
    """Stacks one value per environment, recursively in dicts with the same keys and in tuples of the same length.

    :param rows: one value for each environment.
    :return: arrays whose first axis counts environments, nested like the values.

    >>> collate([{"a": 1}, {"a": 2}])
    {'a': array([1, 2])}
    """
    first = rows[0]
    if type(first) is np.ndarray:
        return stack(rows)
    if isinstance(first, dict) and all(isinstance(row, dict) and row.keys() == first.keys() for row in rows):
        return {key: collate([row[key] for row in rows]) for key in first}
    if type(first) is tuple and all(type(row) is tuple and len(row) == len(first) for row in rows):
        return tuple(collate(part) for part in zip(*rows, strict=True))
    return stack(rows)


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
        return objects if strict or space is not None else collate
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
    if array.dtype.kind not in "biuf" or dtype.kind not in "biuf":
        return array.astype(dtype) if np.can_cast(array.dtype, dtype, "safe") else None
    with np.errstate(over="raise", invalid="ignore"):
        try:
            cast = array.astype(dtype)
        except FloatingPointError:
            return None
    return cast if dtype.kind == "f" or np.array_equal(cast, array) else None


def objects(rows: Sequence[Any]) -> NDArray[np.object_]:
    """Returns an object array that holds the entries of ``rows`` without conversion."""
    out = np.empty(len(rows), dtype=object)
    for k, row in enumerate(rows):
        out[k] = row
    return out


def each(tree: Tree) -> list[Any]:
    """Reverses :func:`collate`: returns a list with one value for each environment."""
    if isinstance(tree, dict):
        parts = [each(part) for part in tree.values()]
        return [dict(zip(tree, row, strict=True)) for row in zip(*parts, strict=True)]
    if isinstance(tree, tuple):
        return list(zip(*(each(part) for part in tree), strict=True))
    return list(tree)


def joined(parts: Sequence[Tree]) -> Tree:
    """Concatenates the rows of all ``parts``."""
    first = parts[0]
    if isinstance(first, dict) and all(isinstance(part, dict) and part.keys() == first.keys() for part in parts):
        return {key: joined([part[key] for part in parts]) for key in first}
    if isinstance(first, tuple) and all(isinstance(part, tuple) and len(part) == len(first) for part in parts):
        return tuple(joined(own) for own in zip(*parts, strict=True))
    if all(isinstance(part, np.ndarray) and part.shape[1:] == first.shape[1:] for part in parts):
        return np.concatenate(parts)
    return collate([row for part in parts for row in each(part)])


def map_leaves(function: Callable[..., Any], tree: Tree, *others: Tree) -> Tree:
    """Applies ``function`` to each leaf of ``tree`` together with the corresponding leaves of ``others``."""
    if isinstance(tree, dict):
        return {key: map_leaves(function, part, *(other[key] for other in others)) for key, part in tree.items()}
    if isinstance(tree, tuple):
        return tuple(map_leaves(function, *parts) for parts in zip(tree, *others, strict=True))
    return function(tree, *others)


def put(tree: Tree, rows: Tree, at: NDArray[Any]) -> Tree:
    """Returns a copy of ``tree`` in which the rows with the indices ``at`` are replaced by ``rows``."""
    if isinstance(tree, np.ndarray) and tree.dtype == rows.dtype:  # a fast path for the most frequent case
        tree = tree.copy()
        tree[at] = rows
        return tree

    def replaced(leaf: Any, row: Any) -> Any:
        leaf = leaf.astype(np.result_type(leaf, row))
        leaf[at] = row
        return leaf

    return map_leaves(replaced, tree, rows)
