"""Functions of nested values: arrays and tensors, and dicts, tuples, lists and ``Batch`` of them.

Every leaf has one row for each environment. No function changes its arguments: each returns new values.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping, MutableSequence, Sequence
from copy import copy, deepcopy
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from rlfast._core import BatchBase, plain_copy, plain_rows, with_stacks

if TYPE_CHECKING:
    import torch

Ids = NDArray[np.int64]

EXPLORATION = "exploration"
"""The entry of a policy's hidden state that acting alone needs: it is passed to the next step, and not stored."""
_STACKABLE = (np.ndarray, float, int, np.generic, list)
_INT64 = np.dtype(np.int64)
_IMMUTABLE = {type(None), bool, int, float, str, bytes, np.bool_, np.int64, np.int32, np.float64, np.float32}


def is_tensor(value: object) -> TypeGuard[torch.Tensor]:
    """Whether ``value`` is a torch tensor. This does not import torch: without it, no value is one."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def as_host(value: object) -> Any:
    """Returns the array of a tensor, which shares its memory on the CPU; anything else as it is.

    Floats of a dtype that NumPy does not have, such as bfloat16, become float32, which holds each of them.
    """
    if not is_tensor(value):
        return value
    try:
        return value.numpy(force=True)
    except TypeError:
        if not value.is_floating_point():
            raise
        return value.float().numpy(force=True)


def object_array(values: Sequence[Any]) -> NDArray[np.object_]:
    """Returns a one-dimensional object array of the values (``np.array`` would make further axes of sequences)."""
    array = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        array[i] = value
    return array


# -- copies ------------------------------------------------------------------------------------------------------------


def copied(value: Any, _done: dict[int, Any] | None = None) -> Any:
    """Returns a copy that shares no array, tensor or container with ``value``; objects of other kinds are kept.

    >>> numbers = [1, 2]
    >>> copy = copied({"numbers": numbers})
    >>> numbers.append(3)
    >>> copy
    {'numbers': [1, 2]}
    """
    if _done is None and (plain := plain_copy(value)) is not None:
        return plain
    kind = type(value)
    if kind in _IMMUTABLE:
        return value
    if (kind is np.ndarray and not value.dtype.hasobject) or (
        kind is dict and _IMMUTABLE.issuperset(map(type, value.values()))
    ):
        return value.copy()
    done = {} if _done is None else _done  # copies by the id of the original: a container may contain itself
    if id(value) in done:
        return done[id(value)]
    new = value
    if kind is dict or isinstance(value, MutableMapping):
        new = done[id(value)] = copy(value)
        for key, part in value.items():
            new[key] = copied(part, done)
    elif kind is list or isinstance(value, MutableSequence):
        new = done[id(value)] = copy(value)
        if kind is not bytearray:
            for k, part in enumerate(value):
                new[k] = copied(part, done)
    elif isinstance(value, tuple):
        parts = [copied(part, done) for part in value]
        new = kind(*parts) if hasattr(value, "_fields") else kind(parts)
    elif isinstance(value, np.ndarray):
        new = done[id(value)] = value.copy()
        if value.dtype == object:
            for place in np.ndindex(value.shape):
                new[place] = copied(value[place], done)
    elif isinstance(value, set | np.void):
        new = copy(value)
    elif is_tensor(value):
        new = value.detach().clone()
    elif isinstance(value, BatchBase):
        new = deepcopy(value)
    return new


def with_own_objects(tree: Any) -> Any:
    """Returns nested arrays with the entries of object arrays copied; other arrays are kept.

    :param tree: an array, or a dict or tuple of nested arrays.
    """
    if isinstance(tree, np.ndarray):
        return copied(tree) if tree.dtype.hasobject else tree
    if isinstance(tree, dict):
        return {key: with_own_objects(part) for key, part in tree.items()}
    return tuple(with_own_objects(part) for part in tree)


# -- rows of several environments in one array, and back ---------------------------------------------------------------


def stack(rows: Sequence[Any]) -> NDArray[Any]:
    """Stacks the entries of several environments in one array.

    The result is always a new array, so an environment that reuses its observation buffer does not change it.

    :param rows: one entry for each environment.
    :return: an array whose first axis counts environments; an object array if the entries have different shapes or are
        not numbers or arrays.
    """
    if all(isinstance(row, _STACKABLE) for row in rows):
        try:
            return np.array(rows)
        except ValueError:  # different shapes
            pass
    return object_array(rows)


def collate(rows: Sequence[Any]) -> Any:
    """Stacks one value per environment, recursively in dicts with the same keys and in tuples of the same length.

    :param rows: one value for each environment.
    :return: arrays whose first axis counts environments, nested like the values.

    >>> collate([{"a": 1}, {"a": 2}])
    {'a': array([1, 2])}
    """
    if (plain := plain_rows(rows)) is not None:
        return plain
    first = rows[0]
    if isinstance(first, dict) and _have_keys(rows, first):
        return {key: collate([row[key] for row in rows]) for key in first}
    if type(first) is tuple and all(type(row) is tuple and len(row) == len(first) for row in rows):
        return tuple(collate(part) for part in zip(*rows, strict=True))
    return stack(rows)


def _have_keys(rows: Sequence[Any], first: dict[Any, Any]) -> bool:
    """Whether all rows are dicts with the keys of the first."""
    are_dicts = all(issubclass(kind, dict) for kind in set(map(type, rows)))
    return are_dicts and all(map(first.keys().__eq__, map(dict.keys, rows)))


def each(tree: Any) -> list[Any]:
    """Reverses :func:`collate`: returns a list with one value for each environment."""
    if isinstance(tree, dict):
        parts = [each(part) for part in tree.values()]
        return [dict(zip(tree, row, strict=True)) for row in zip(*parts, strict=True)]
    if isinstance(tree, tuple):
        return list(zip(*(each(part) for part in tree), strict=True))
    if isinstance(tree, np.ndarray) and tree.dtype is _INT64 and tree.ndim == 1:
        return list(map(_scalars.__getitem__, tree.tolist()))
    return list(tree)


class _Scalars(dict[int, np.int64]):
    """NumPy's integers, small ones made once: a list of discrete actions takes a fifth of the time."""

    def __missing__(self, number: int) -> np.int64:
        scalar = np.int64(number)
        if abs(number) < 1000:
            self[number] = scalar
        return scalar


_scalars = _Scalars()


def joined(parts: Sequence[Any]) -> Any:
    """Concatenates the rows of all ``parts``."""
    first = parts[0]
    if isinstance(first, dict) and all(isinstance(part, dict) and part.keys() == first.keys() for part in parts):
        return {key: joined([part[key] for part in parts]) for key in first}
    if isinstance(first, tuple) and all(isinstance(part, tuple) and len(part) == len(first) for part in parts):
        return tuple(joined(own) for own in zip(*parts, strict=True))
    if all(isinstance(part, np.ndarray) and part.shape[1:] == first.shape[1:] for part in parts):
        return np.concatenate(parts)
    return collate([row for part in parts for row in each(part)])


# -- leaves ------------------------------------------------------------------------------------------------------------


def leaves(tree: object) -> Iterator[Any]:
    """Yields the values that are no dicts, tuples, lists or batches.

    >>> list(leaves({"a": 1, "b": (2, [3])}))
    [1, 2, 3]
    """
    if isinstance(tree, Mapping | BatchBase):
        tree = tuple((tree.__dict__ if isinstance(tree, BatchBase) else tree).values())
    if isinstance(tree, tuple | list):
        for entry in tree:
            yield from leaves(entry)
    else:
        yield tree


def map_leaves(fn: Callable[..., Any], tree: object, *others: Any) -> Any:
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
    if isinstance(tree, BatchBase):
        batch: Any = object.__new__(type(tree))
        batch.__setstate__(map_leaves(fn, tree.__dict__, *(other.__dict__ for other in others)))
        return batch
    if isinstance(tree, Mapping):
        return {key: map_leaves(fn, value, *(other[key] for other in others)) for key, value in tree.items()}
    if isinstance(tree, tuple | list):
        entries = [map_leaves(fn, *entry) for entry in zip(tree, *others, strict=True)]
        return type(tree)(*entries) if hasattr(tree, "_fields") else type(tree)(entries)
    raise TypeError(
        f"expected arrays or tensors with one row per environment, or dicts, tuples or lists of them, got {type(tree)}"
    )


def take(tree: object, ids: Ids | slice | None) -> Any:
    """Returns the rows ``ids`` of every leaf, or ``tree`` itself when ``ids`` is None."""
    return tree if ids is None else map_leaves(lambda leaf: leaf[ids], tree)


def put(tree: object, ids: Ids | None, rows: object, length: int = 0) -> Any:
    """Returns ``tree`` with ``rows`` written at ``ids``.

    :param tree: nested values; None for zeros of ``length`` rows.
    :param ids: the rows to replace; None replaces all of them.
    :param rows: the new rows, nested as ``tree`` is; None makes the result None.
    :param length: the number of rows, if ``tree`` is None.
    :return: the new nested values.
    """
    if ids is None or rows is None:
        return rows
    if isinstance(rows, BatchBase) and isinstance(tree, BatchBase):  # a part may be new: the state of another agent
        batch: Any = object.__new__(type(rows))
        known = tree.__dict__
        batch.__setstate__({key: put(known.get(key), ids, part, length) for key, part in rows.__dict__.items()})
        return batch

    def replaced(row: Any, leaf: Any = None) -> Any:
        if leaf is None:
            shape = (length, *row.shape[1:])
            leaf = np.zeros(shape, row.dtype) if isinstance(row, np.ndarray) else row.new_zeros(shape)
        elif not isinstance(leaf, np.ndarray):
            leaf = leaf.clone()
        elif not leaf.flags.writeable and (stacks := with_stacks(leaf, ids, row)) is not None:
            return stacks
        elif leaf.shape[1:] == row.shape[1:]:
            leaf = leaf.copy() if leaf.dtype == row.dtype else leaf.astype(np.result_type(leaf, row))
        else:  # ragged: entries of different shapes
            leaf, row = object_array(list(leaf)), object_array(list(row))
        leaf[ids] = row
        return leaf

    return map_leaves(replaced, rows, *(() if tree is None else (tree,)))


def writable(tree: object) -> Any:
    """Returns ``tree`` with copies of the arrays that cannot be written to.

    :param tree: nested values.

    >>> array = np.arange(2)
    >>> writable(array) is array, writable(np.broadcast_to(array, (2, 2))).flags.writeable
    (True, True)
    """
    if isinstance(tree, np.ndarray):
        return tree if tree.flags.writeable else tree.copy()
    if isinstance(tree, dict):
        return {key: writable(part) for key, part in tree.items()}
    return map_leaves(lambda leaf: writable(leaf) if isinstance(leaf, np.ndarray) else leaf, tree)


def clear(tree: object, ids: Ids) -> Any:
    """Returns ``tree`` with the rows ``ids`` set to zero (None in object arrays)."""

    def cleared(leaf: Any) -> Any:
        leaf = leaf.copy() if isinstance(leaf, np.ndarray) else leaf.clone()
        leaf[ids] = None if leaf.dtype == object else 0
        return leaf

    return map_leaves(cleared, tree)


def without(tree: object, name: str) -> Any:
    """Returns nested mappings without the entries of a name; None if nothing is left.

    :param tree: nested values; what is no mapping stays as it is.
    :param name: the name.

    >>> without({"hidden": 1, "exploration": 2}, "exploration"), without({"exploration": {"left": 1}}, "exploration")
    ({'hidden': 1}, None)
    """
    if isinstance(tree, np.ndarray) or is_tensor(tree) or not isinstance(tree, BatchBase | Mapping):
        return tree
    entries = tree.__dict__ if isinstance(tree, BatchBase) else tree
    kept = {key: without(value, name) for key, value in entries.items() if key != name}
    return {key: value for key, value in kept.items() if value is not None} or None


def zeros(tree: object) -> Any:
    """Returns zeros (None in object arrays) in the structure, shapes and dtypes of ``tree``."""
    return map_leaves(lambda leaf: np.full_like(leaf, None if leaf.dtype == object else 0), tree)


def storable(tree: object) -> Any:
    """Converts nested values to nested dicts of NumPy arrays; entry ``i`` of a tuple or list gets the key ``str(i)``.

    :raises TypeError: a leaf is neither an array nor a tensor.
    """
    if isinstance(tree, np.ndarray):
        return tree
    if isinstance(tree, dict):
        return {key: storable(value) for key, value in tree.items()}
    if is_tensor(tree):
        return as_host(tree)
    if isinstance(tree, BatchBase | Mapping):
        return storable(dict(tree.__dict__ if isinstance(tree, BatchBase) else tree))
    if isinstance(tree, tuple | list):
        return {str(i): storable(entry) for i, entry in enumerate(tree)}
    raise TypeError(f"expected arrays or tensors with one row per environment, got {type(tree)}")
