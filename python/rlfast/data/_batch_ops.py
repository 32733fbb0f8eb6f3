"""Concatenating and stacking batches, and the zeros that stand where one of them lacks a field."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from rlfast.data._values import is_number, is_numeric, is_tensor, object_array, to_objects
from rlfast.data.batch import Batch, parse, wrap

#: Stands for a field that a batch lacks, or that is an empty batch there.
_MISSING: Any = object()


def cat(batches: Sequence[Any] | Batch | dict[str, Any], head: Batch | None = None) -> dict[str, Any]:
    """The fields of ``head`` and ``batches``, one after the other; see :meth:`rlfast.data.Batch.cat`."""
    given = _non_empty([batches] if isinstance(batches, Batch | dict) else batches)
    try:
        lengths = [_length(batch) for batch in given]
    except TypeError as error:
        raise ValueError(f"cannot concatenate batches that have no rows: {error}") from error
    if given and head is not None and not head.is_empty():
        given, lengths = [head, *given], [_length(head), *lengths]
    return _cat_fields(given, lengths)


def _length(batch: Batch) -> int:
    return 0 if batch.is_empty(recurse=True) else len(batch)


def stack(batches: Iterable[Any], axis: int = 0, head: Batch | None = None) -> dict[str, Any]:
    """The fields of ``head`` and ``batches`` along a new axis; see :meth:`rlfast.data.Batch.stack`."""
    given = _non_empty(batches)
    if given and head is not None and not head.is_empty():
        given = [head, *given]
    return _stack_fields(given, axis)


def create_value(inst: Any, size: int, stack: bool = True) -> Any:
    """Zeros, or None for objects, for ``size`` values like ``inst``: an array, a tensor, or a ``Batch`` of them.

    :param inst: an example of the values.
    :param stack: whether ``inst`` is one value, so that ``size`` is a new leading axis; else it is an array of values.
    :raises TypeError: ``inst`` is a single value, but ``stack`` is False.

    >>> create_value(Batch(a=[1, 2], b="x"), 3).shape
    [3]
    >>> create_value(np.ones((3, 5), "f4"), 10, stack=False).shape
    (10, 5)
    """
    if isinstance(inst, Batch | dict):
        return wrap({key: create_value(value, size, stack) for key, value in inst.items()})
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


def alloc_by_keys_diff(meta: Any, batch: Any, size: int, stack: bool = True) -> None:
    """Adds ``size`` zeros to ``meta`` for each field of ``batch`` that it lacks, or has an empty batch for."""
    for key, value in batch.items():
        have = meta.get(key, _MISSING)
        if isinstance(have, Batch) and isinstance(value, Batch):
            alloc_by_keys_diff(have, value, size, stack)
        elif have is _MISSING or (isinstance(have, Batch) and have.is_empty()):
            meta[key] = create_value(value, size, stack)


def _cat_fields(batches: list[Batch], lengths: list[int]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for key, values in _columns(batches).items():
        present = [value for value in values if value is not _MISSING]
        nested = [isinstance(value, Batch) for value in present]
        if all(nested):  # also when nobody has anything there: the name stays reserved
            fields[key] = wrap(_cat_fields([wrap({}) if v is _MISSING else v for v in values], lengths))
        elif any(nested):
            raise ValueError(
                f"cannot concatenate field {key!r}: it is a Batch in some of the batches and none in others"
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
            create_value(present[0], length, stack=False) if value is _MISSING else value
            for value, length in zip(values, lengths, strict=True)
        ]
    if all(map(is_tensor, values)):
        return sys.modules["torch"].cat(values)
    return to_objects(np.concatenate(values))


def _stack_fields(batches: list[Batch], axis: int) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for key, values in _columns(batches).items():
        present = [value for value in values if value is not _MISSING]
        if axis != 0 and 0 < len(present) < len(values):
            raise ValueError(
                f"field {key!r} is missing in some of the batches; they stack only with axis=0, got axis={axis}"
            )
        if all(isinstance(value, Batch) for value in present):
            fields[key] = wrap(_stack_fields([wrap({}) if v is _MISSING else v for v in values], axis))
        else:
            blank = create_value(present[0], 1)[0] if len(present) < len(values) else None
            fields[key] = _stack_values([blank if value is _MISSING else value for value in values], axis)
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


def _non_empty(batches: Iterable[Any]) -> list[Batch]:
    given = []
    for batch in batches:
        if not isinstance(batch, Batch | dict):
            raise ValueError(f"only batches and dicts are combined to a Batch, got {type(batch).__name__}")
        parsed = parse(batch)
        if not parsed.is_empty():
            given.append(parsed)
    return given


def _columns(batches: list[Batch]) -> dict[str, list[Any]]:
    """For each key, in order of appearance, its value in every batch; ``_MISSING`` also for an empty batch."""
    columns: dict[str, list[Any]] = {}
    for i, batch in enumerate(batches):
        for key, value in batch.__dict__.items():
            column = columns.setdefault(key, [_MISSING] * len(batches))
            if not (isinstance(value, Batch) and not value.__dict__):
                column[i] = value
    return columns
