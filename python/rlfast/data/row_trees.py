"""Functions of nested values: arrays and tensors, and dicts, tuples, lists and ``Batch`` of them.

Every leaf has one row for each environment. No function changes its arguments: each returns new values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlfast.data.batch.batch import Batch, wrap
from rlfast.data.batch.values import is_tensor, object_array

Ids = NDArray[np.int64]


def map_leaves(fn: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """Applies a function to every leaf.

    :param fn: called with a leaf of ``tree`` and the leaves at the same place in ``others``.
    :param tree: nested arrays and tensors.
    :param others: further nested values with the structure of ``tree``.
    :return: the results, nested as ``tree`` is.
    :raises TypeError: a leaf is neither an array nor a tensor.
    """
    if isinstance(tree, np.ndarray) or is_tensor(tree):
        return fn(tree, *others)
    if tree is None:
        return None
    if isinstance(tree, Batch):
        return wrap(map_leaves(fn, tree.__dict__, *(other.__dict__ for other in others)))
    if isinstance(tree, Mapping):
        return {key: map_leaves(fn, value, *(other[key] for other in others)) for key, value in tree.items()}
    if isinstance(tree, tuple | list):
        entries = [map_leaves(fn, *entry) for entry in zip(tree, *others, strict=True)]
        return type(tree)(*entries) if hasattr(tree, "_fields") else type(tree)(entries)
    raise TypeError(
        f"expected arrays or tensors with one row per environment, or dicts, tuples or lists of them, got {type(tree)}"
    )


def take(tree: Any, ids: Ids | None) -> Any:
    """Returns the rows ``ids`` of every leaf, or ``tree`` itself when ``ids`` is None."""
    return tree if ids is None else map_leaves(lambda leaf: leaf[ids], tree)


def put(tree: Any, ids: Ids | None, rows: Any, length: int) -> Any:
    """Returns ``tree`` with ``rows`` written at ``ids``.

    :param tree: nested values; None for zeros of ``length`` rows.
    :param ids: the rows to replace; None replaces all of them.
    :param rows: the new rows, nested as ``tree`` is; None makes the result None.
    :param length: the number of rows of ``tree``.
    :return: the new nested values.
    """
    if ids is None or rows is None:
        return rows

    def replaced(row: Any, leaf: Any = None) -> Any:
        if leaf is None:
            shape = (length, *row.shape[1:])
            leaf = np.zeros(shape, row.dtype) if isinstance(row, np.ndarray) else row.new_zeros(shape)
        elif not isinstance(leaf, np.ndarray):
            leaf = leaf.clone()
        elif leaf.shape[1:] == row.shape[1:]:
            leaf = leaf.astype(np.result_type(leaf, row))  # a copy
        else:  # ragged: entries of different shapes
            leaf, row = object_array(list(leaf)), object_array(list(row))
        leaf[ids] = row
        return leaf

    return map_leaves(replaced, rows, *(() if tree is None else (tree,)))


def clear(tree: Any, ids: Ids) -> Any:
    """Returns ``tree`` with the rows ``ids`` set to zero (None in object arrays)."""

    def cleared(leaf: Any) -> Any:
        if isinstance(leaf, np.ndarray):
            leaf = leaf.copy()
            leaf[ids] = None if leaf.dtype == object else 0
        else:
            leaf = leaf.clone()
            leaf[ids] = 0
        return leaf

    return map_leaves(cleared, tree)


def zeros(tree: Any) -> Any:
    """Returns zeros (None in object arrays) in the structure, shapes and dtypes of ``tree``."""
    return map_leaves(lambda leaf: np.full_like(leaf, None if leaf.dtype == object else 0), tree)


def storable(tree: Any) -> Any:
    """Converts nested values to nested dicts of NumPy arrays; entry ``i`` of a tuple or list gets the key ``str(i)``.

    :raises TypeError: a leaf is neither an array nor a tensor.
    """
    if isinstance(tree, np.ndarray):
        return tree
    if is_tensor(tree):
        return tree.detach().cpu().numpy()
    if isinstance(tree, Batch | Mapping):
        return {key: storable(value) for key, value in (tree.__dict__ if isinstance(tree, Batch) else tree).items()}
    if isinstance(tree, tuple | list):
        return {str(i): storable(entry) for i, entry in enumerate(tree)}
    raise TypeError(f"expected arrays or tensors with one row per environment, got {type(tree)}")


def plain(tree: Any) -> Any:
    """Returns ``tree`` with every ``Batch`` written as a dict; :func:`unplain` is the inverse."""
    if isinstance(tree, Batch):
        return {_BATCH: {key: plain(value) for key, value in tree.__dict__.items()}}
    if isinstance(tree, dict):
        return {key: plain(value) for key, value in tree.items()}
    return type(tree)(map(plain, tree)) if type(tree) in (tuple, list) else tree


def unplain(tree: Any) -> Any:
    """Returns the nested values that :func:`plain` was given."""
    if isinstance(tree, dict):
        inner = {key: unplain(value) for key, value in tree.get(_BATCH, tree).items()}
        return wrap(inner) if _BATCH in tree else inner
    return type(tree)(map(unplain, tree)) if type(tree) in (tuple, list) else tree


_BATCH = "~Batch"
