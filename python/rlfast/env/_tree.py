"""Rows of several environments as one nested value: an array for each leaf, dicts and tuples as the space has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from rlfast.env.worker import stack

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from rlfast.env.backend import Tree

ARRAY_SPACES = (gym.spaces.Box, gym.spaces.Discrete, gym.spaces.MultiDiscrete, gym.spaces.MultiBinary)
"""Spaces whose elements are arrays or numbers of one shape; elements of others are kept as objects."""


def collate(rows: Sequence[Any]) -> Tree:
    """What the environments gave, nested as it is: dicts with the same keys and tuples of the same length are opened.

    >>> collate([{"a": 1}, {"a": 2}])
    {'a': array([1, 2])}
    """
    first = rows[0]
    if type(first) is np.ndarray:
        return stack(rows)
    if isinstance(first, dict) and all(isinstance(row, dict) and row.keys() == first.keys() for row in rows):
        return {key: collate([row[key] for row in rows]) for key in first}
    if isinstance(first, tuple) and all(isinstance(row, tuple) and len(row) == len(first) for row in rows):
        return tuple(collate(part) for part in zip(*rows, strict=True))
    return stack(rows)


def collate_as(space: gym.Space[Any], rows: Sequence[Any]) -> Tree:
    """Elements of ``space`` with its nesting and dtypes; those of spaces without a shape become an array of objects.

    :raises ValueError: an element has another shape, or a dtype that does not fit.
    """
    return collator(space)(rows)


def collator(space: gym.Space[Any]) -> Callable[[Sequence[Any]], Tree]:
    """:func:`collate_as` for one space, which is looked at once."""
    if isinstance(space, gym.spaces.Dict):
        named = {key: collator(part) for key, part in space.items()}
        return lambda rows: {key: part([row[key] for row in rows]) for key, part in named.items()}
    if isinstance(space, gym.spaces.Tuple):
        parts = [collator(part) for part in space]
        return lambda rows: tuple(part([row[k] for row in rows]) for k, part in enumerate(parts))
    if not isinstance(space, ARRAY_SPACES):
        return objects
    shape, dtype = tuple(space.shape or ()), space.dtype

    def collate_leaf(rows: Sequence[Any]) -> Tree:
        try:
            leaf = np.array(rows)
        except ValueError:  # of different shapes
            leaf = None
        if leaf is not None and leaf.shape == (len(rows), *shape):
            if leaf.dtype == dtype:
                return leaf
            if np.can_cast(leaf.dtype, dtype, "same_kind"):
                return leaf.astype(dtype)
        wrong = np.asarray(next((row for row in rows if np.shape(row) != shape), rows[0]))
        raise ValueError(f"got an array of shape {wrong.shape} and dtype {wrong.dtype} where the space is {space}")

    return collate_leaf


def objects(rows: Sequence[Any]) -> NDArray[np.object_]:
    """An array that holds each of ``rows`` as it is."""
    out = np.empty(len(rows), dtype=object)
    for k, row in enumerate(rows):
        out[k] = row
    return out


def each(tree: Tree) -> list[Any]:
    """One element for each environment: the reverse of :func:`collate`."""
    if isinstance(tree, dict):
        parts = [each(part) for part in tree.values()]
        return [dict(zip(tree, row, strict=True)) for row in zip(*parts, strict=True)]
    if isinstance(tree, tuple):
        return list(zip(*(each(part) for part in tree), strict=True))
    return list(tree)


def map_leaves(function: Callable[..., Any], tree: Tree, *others: Tree) -> Tree:
    """``function`` of each leaf of ``tree`` and the leaves at the same place of ``others``."""
    if isinstance(tree, dict):
        return {key: map_leaves(function, part, *(other[key] for other in others)) for key, part in tree.items()}
    if isinstance(tree, tuple):
        return tuple(map_leaves(function, *parts) for parts in zip(tree, *others, strict=True))
    return function(tree, *others)


def put(tree: Tree, rows: Tree, at: NDArray[Any]) -> Tree:
    """A copy of ``tree`` with ``rows`` at the places ``at``."""
    if isinstance(tree, np.ndarray) and tree.dtype == rows.dtype:  # the usual case, quickly
        tree = tree.copy()
        tree[at] = rows
        return tree

    def replaced(leaf: Any, row: Any) -> Any:
        leaf = leaf.astype(np.result_type(leaf, row))
        leaf[at] = row
        return leaf

    return map_leaves(replaced, tree, rows)
