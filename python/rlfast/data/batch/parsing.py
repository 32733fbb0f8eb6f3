"""Conversion of the values that fields of a batch are set to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard, TypeVar

import numpy as np

from rlfast._core import BatchBase
from rlfast.data.batch.values import as_array, is_number, is_numeric
from rlfast.utils.tree import is_tensor

_STATE = "state"
B = TypeVar("B", bound=BatchBase)


def set_fields(batch: BatchBase, fields: dict[str, Any]) -> None:
    """Makes a dict the ``__dict__`` of a batch; an assignment would make a field of that name."""
    object.__setattr__(batch, "__dict__", fields)


def made(cls: type[B], fields: dict[str, Any]) -> B:
    """Makes a batch of a dict of valid values, without copying or checking the dict or the values."""
    new = object.__new__(cls)
    set_fields(new, fields)
    return new


def parse(value: object, cls: type[BatchBase], key: str = "") -> Any:
    """Converts a value as assignment to a field does: to an array, a tensor, an instance of ``cls``, or the object.

    A tuple or a list of tensors under the ``key`` "state" is a policy's hidden state and is kept as it is, also within
    a dict: if its tensors were stacked, the first axis would no longer be that of the environments.

    :raises TypeError: a list of tensors that do not stack, or tensors inside an object array.
    """
    if isinstance(value, BatchBase) or value is None or is_numeric(value):
        return value
    if isinstance(value, dict):
        return made(cls, parse_fields(value, cls, key) if value else {})
    if is_number(value):
        return np.asanyarray(value)
    if is_tensor(value) or (key == _STATE and _is_hidden(value)):
        return value
    if is_batch_set(value):
        return cls(_with_places(value, cls))
    if isinstance(value, Sequence) and not isinstance(value, str | bytes) and any(map(is_tensor, value)):
        return _of_tensors(value)
    return as_array(value)


def parse_fields(fields: dict[str, Any], cls: type[BatchBase], within: str = "") -> dict[str, Any]:
    """Returns a new dict of the parsed values; ``within`` is the name of the field that holds the dict.

    :raises AssertionError: a key is not a string.
    """
    if not all(isinstance(key, str) for key in fields):
        raise AssertionError(f"the keys of a Batch are strings, got {list(fields)}")
    return {key: parse(value, cls, _STATE if within == _STATE else key) for key, value in fields.items()}


def _is_hidden(value: object) -> bool:
    return (isinstance(value, tuple) or (isinstance(value, list) and any(map(is_tensor, value)))) and _has_rows(value)


def _has_rows(tree: object) -> bool:
    """Whether all leaves are arrays or tensors with at least one axis, and there are any."""
    if isinstance(tree, BatchBase):
        return all(map(_has_rows, tree.__dict__.values()))
    if isinstance(tree, dict | tuple | list):
        return bool(tree) and all(map(_has_rows, tree.values() if isinstance(tree, dict) else tree))
    return (is_tensor(tree) or isinstance(tree, np.ndarray)) and tree.ndim > 0


def restore(value: object, cls: type[BatchBase]) -> Any:
    """Restores a field from pickled or copied state: dicts become nested batches, NumPy scalars become arrays."""
    if isinstance(value, dict):
        return made(cls, {key: restore(entry, cls) for key, entry in value.items()})
    return np.asanyarray(value) if is_number(value) else value


def is_batch_set(value: Any) -> TypeGuard[Sequence[Any]]:
    """Whether the value is a sequence of dicts or batches: an object array, or a list or tuple that is not empty."""
    if isinstance(value, np.ndarray):
        is_set = value.dtype == object and value.ndim > 0
    else:
        is_set = isinstance(value, list | tuple) and len(value) > 0
    return is_set and all(isinstance(entry, dict | BatchBase) for entry in value)


def _with_places(entries: Sequence[Any], cls: type[BatchBase]) -> Sequence[Any]:
    """Gives empty dicts a key of the others, without a value, so that they get rows of zeros and are not left out."""
    if all(isinstance(entry, dict) for entry in entries) and (filled := [*filter(None, entries)]):
        return [entry or {next(iter(filled[0])): made(cls, {})} for entry in entries]
    return entries


def _of_tensors(values: Sequence[Any]) -> Any:
    """Stacks a sequence of tensors, or makes an array of one-element tensors and other numbers.

    :raises TypeError: the tensors have different shapes, or larger tensors are mixed with other values.
    """
    import torch

    if not all(map(is_tensor, values)):
        if any(is_tensor(value) and value.numel() != 1 for value in values):
            raise TypeError("a list of tensors and other values cannot be a field of a Batch; make all of them tensors")
        return as_array(values)
    try:
        return torch.stack(list(values))
    except RuntimeError as error:
        shapes = [tuple(value.shape) for value in values]
        raise TypeError(f"a list of tensors must stack to be a field of a Batch, got shapes {shapes}") from error
