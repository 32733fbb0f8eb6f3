"""Concatenating and stacking batches. Where one of them lacks a field, zeros take its place."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from rlfast._core import BatchBase
from rlfast.data.batch.parsing import made, parse
from rlfast.data.batch.values import is_number, is_numeric, to_objects
from rlfast.utils.tree import is_tensor, object_array

#: Marks a field that a batch lacks, or that is an empty batch there.
_MISSING: Any = object()


def cat(batches: Sequence[Any] | BatchBase | dict[str, Any], kind: type[BatchBase], head: Any = None) -> dict[str, Any]:
    """Concatenates ``head`` and ``batches``; see :meth:`rlfast.data.Batch.cat`.

    :param batches: batches or dicts.
    :param kind: the class of nested fields.
    :param head: a batch that comes first; None, or an empty one, is left out.
    :return: the fields of the result.
    :raises ValueError: a batch has no rows.
    """
    given = _non_empty([batches] if isinstance(batches, BatchBase | dict) else batches, kind)
    try:
        lengths = [_length(batch) for batch in given]
    except TypeError as error:
        raise ValueError(f"cannot concatenate batches that have no rows: {error}") from error
    if given and head is not None and not head.is_empty():
        given, lengths = [head, *given], [_length(head), *lengths]
    return _cat_fields(given, lengths, kind)


def _length(batch: Any) -> int:
    return 0 if batch.is_empty(recurse=True) else len(batch)


def stack(batches: Iterable[Any], kind: type[BatchBase], axis: int = 0, head: Any = None) -> dict[str, Any]:
    """Stacks ``head`` and ``batches`` along a new axis; see :meth:`rlfast.data.Batch.stack`.

    :param batches: batches or dicts.
    :param kind: the class of nested fields.
    :param axis: the position of the new axis.
    :param head: a batch that comes first; None, or an empty one, is left out.
    :return: the fields of the result.
    """
    given = _non_empty(batches, kind)
    if given and head is not None and not head.is_empty():
        given = [head, *given]
    return _stack_fields(given, axis, kind)


def blank(inst: object, size: int, stack: bool = True) -> Any:
    """Allocates ``size`` values with the dtype and the shape of an example: zeros, or None for objects.

    :param inst: the example.
    :param size: how many values.
    :param stack: True if ``inst`` is one value, so that ``size`` becomes a new leading axis; False if ``inst`` is an
        array of values, so that ``size`` replaces its first axis.
    :return: an array or a tensor.
    :raises TypeError: ``inst`` is a single value, but ``stack`` is False.
    """
    if not stack and (np.isscalar(inst) or (is_tensor(inst) and inst.ndim == 0)):
        raise TypeError(f"cannot concatenate with the single value {inst!r}")
    if is_number(inst):
        inst = np.asanyarray(inst)
    if not isinstance(inst, np.ndarray) and not is_tensor(inst):
        return np.full(size, None, dtype=object)
    shape = (size, *inst.shape) if stack else (size, *inst.shape[1:])
    if is_tensor(inst):
        return inst.new_zeros(shape)
    return np.zeros(shape, inst.dtype) if is_numeric(inst) else np.full(shape, None, dtype=object)


def _with_empty(values: list[Any], kind: type[BatchBase]) -> list[Any]:
    return [made(kind, {}) if value is _MISSING else value for value in values]


def _cat_fields(batches: list[Any], lengths: list[int], kind: type[BatchBase]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for key, values in _columns(batches).items():
        present = [value for value in values if value is not _MISSING]
        nested = [isinstance(value, BatchBase) for value in present]
        if all(nested):  # also when no batch has a value there: the field stays, as an empty batch
            fields[key] = made(kind, _cat_fields(_with_empty(values, kind), lengths, kind))
        elif any(nested):
            raise ValueError(
                f"cannot concatenate field {key!r}: it is a Batch in some of the batches, but not in others"
            )
        else:
            fields[key] = _concatenate(key, values, present, lengths)
    return fields


def _concatenate(key: str, values: list[Any], present: list[Any], lengths: list[int]) -> Any:
    if len(present) < len(values):
        for value, length in zip(values, lengths, strict=True):
            if value is not _MISSING and len(value) != length:
                raise ValueError(f"cannot fill field {key!r} up: it has {len(value)} rows in a batch of {length}")
        values = [
            blank(present[0], length, stack=False) if value is _MISSING else value
            for value, length in zip(values, lengths, strict=True)
        ]
    if all(map(is_tensor, values)):
        return sys.modules["torch"].cat(values)
    return to_objects(np.concatenate(values))


def _stack_fields(batches: list[Any], axis: int, kind: type[BatchBase]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for key, values in _columns(batches).items():
        present = [value for value in values if value is not _MISSING]
        if axis != 0 and 0 < len(present) < len(values):
            raise ValueError(
                f"field {key!r} is missing in some of the batches; they stack only with axis=0, got axis={axis}"
            )
        if all(isinstance(value, BatchBase) for value in present):
            fields[key] = made(kind, _stack_fields(_with_empty(values, kind), axis, kind))
        else:
            filler = blank(present[0], 1)[0] if len(present) < len(values) else None
            fields[key] = _stack_values([filler if value is _MISSING else value for value in values], axis)
    return fields


def _stack_values(values: list[Any], axis: int) -> Any:
    if all(map(is_tensor, values)):
        return sys.modules["torch"].stack(values, axis)
    shapes = {
        tuple(value.shape) if isinstance(value, np.ndarray | np.generic) or is_tensor(value) else None
        for value in values
    }
    if len(shapes) == 1 and None not in shapes:
        return to_objects(np.stack(values, axis))
    if shapes <= {(), None}:
        return object_array([value.item() if isinstance(value, np.ndarray) else value for value in values])
    warnings.warn("values of different shapes are stacked to an array of objects", stacklevel=5)
    return object_array(values)


def _non_empty(batches: Iterable[Any], kind: type[BatchBase]) -> list[Any]:
    given = []
    for batch in batches:
        if not isinstance(batch, BatchBase | dict):
            raise ValueError(f"only batches and dicts are combined to a Batch, got {type(batch).__name__}")
        parsed = parse(batch, kind)
        if not parsed.is_empty():
            given.append(parsed)
    return given


def _columns(batches: list[Any]) -> dict[str, list[Any]]:
    """Returns, for each key in order of appearance, its value in every batch; ``_MISSING`` where that is empty."""
    columns: dict[str, list[Any]] = {}
    for i, batch in enumerate(batches):
        for key, value in batch.__dict__.items():
            column = columns.setdefault(key, [_MISSING] * len(batches))
            if not (isinstance(value, BatchBase) and not value.__dict__):
                column[i] = value
    return columns
