"""Conversion of one leaf of a row to the dtype and the shape of its column.

A value that means the same in the column's dtype is converted silently. A value that is unusual but has one meaning is
converted too, and the buffer warns once. A value that would lose information, or that has no clear meaning, raises.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlfast.data.batch.batch import Batch
from rlfast.utils.arguments.checks import ArgumentError
from rlfast.utils.tree import as_host, is_tensor, object_array

Path: TypeAlias = tuple[str, ...]
OBJECT = np.dtype(object)
FLAGS: tuple[Path, ...] = (("terminated",), ("truncated",))
_COUNTED = ("rew", "terminated", "truncated")
"""Fields that need one value for each row: they are not broadcast from fewer values."""
STRICT = ("obs", "act", "rew", "terminated", "truncated", "obs_next")
"""Fields whose columns never change their dtype, shape or structure. In them, None raises an error; in all other fields
of floats, None is stored as NaN."""


@dataclass(frozen=True)
class Column:
    """The dtype and the shape of one row of a leaf."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    def blank(self, rows: int | None) -> NDArray[Any]:
        """Returns ``rows`` rows (None: one, without that axis) of zeros, or of None in a column of objects."""
        shape = self.shape if rows is None else (rows, *self.shape)
        return np.full(shape, None if self.dtype == OBJECT else 0, self.dtype)


class Oddities:
    """Collects warnings about unusual values in the rows of a buffer.

    Each kind of warning is given once for each field, and only for rows that were stored.
    """

    def __init__(self, told: set[tuple[Path, str]] | None = None) -> None:
        self._told: set[tuple[Path, str]] = set() if told is None else told
        self._noted: dict[tuple[Path, str], str] = {}

    def fresh(self) -> Oddities:
        """Returns an empty collection for the rows of one call, which gives no warning that was given before."""
        return Oddities(self._told)

    def mute(self, path: Path, kind: str) -> None:
        """Drops a kind of warning for a field, now and later."""
        self._told.add((path, kind))

    @property
    def any(self) -> bool:
        """Whether there are warnings that were not given yet."""
        return bool(self._noted)

    def record(self, path: Path, kind: str, text: str) -> None:
        """Keeps a warning until :meth:`emit` gives it.

        :param path: the field.
        :param kind: the kind of warning; a field has one of each kind.
        :param text: the message, without the name of the field.
        """
        self._noted.setdefault((path, kind), text)

    def emit(self) -> None:
        """Gives all kept warnings, except those that were given before."""
        while self._noted:
            (path, kind), text = self._noted.popitem()
            if (path, kind) not in self._told:
                self._told.add((path, kind))
                warnings.warn(f"{dotted(path)} {text}", stacklevel=2)


def dotted(path: Path) -> str:
    """Returns a path as it is written in Python, such as ``obs.agent.position``."""
    return ".".join(path)


def fit(
    value: object, column: Column, path: Path, rows: int | None, oddities: Oddities, *, spread: bool = True
) -> NDArray[Any]:
    """Converts a value to the dtype and the shape of its column.

    :param value: the value of one row, or the values of several rows along the first axis.
    :param column: the dtype and the shape of one row.
    :param path: the name of the field, for messages.
    :param rows: the number of rows; None for a single row without a row axis.
    :param oddities: receives warnings.
    :param spread: whether a row with fewer values than the column has is repeated to fill it.
    :return: an array of shape ``column.shape``, or ``(rows, *column.shape)``.
    :raises TypeError: the conversion to the column's dtype would lose information.
    :raises ValueError: the shape is not the column's, and cannot be broadcast to it.
    """
    if column.dtype == OBJECT:
        return _fit_objects(value, column, path, rows, oddities, spread=spread)
    array = as_array(value)
    array = _flags(array, path, oddities) if path in FLAGS else array
    has_rows = rows is None or (array.ndim > 0 and len(array) == rows)
    if not spread and has_rows and _squeezed(_row_shape(array, rows)) != _squeezed(column.shape):
        raise _misfit(array, column, path, rows)
    return engine_layout(fit_shape(convert(array, column.dtype, path, oddities), column, path, rows, oddities))


def _fit_objects(
    value: object, column: Column, path: Path, rows: int | None, oddities: Oddities, *, spread: bool
) -> NDArray[Any]:
    array = _dicts(value, rows) if isinstance(value, Batch) else as_array(value)
    if not column.shape and _row_shape(array, rows):  # an array is an object like any other
        array = _as_object(value) if rows is None else object_array(_cells(array))
    if not spread and _row_shape(array, rows) != column.shape:
        raise _misfit(array, column, path, rows)
    array = array.astype(OBJECT, "C")  # a copy: it may be a view of the column that it goes to
    cells = array.reshape(-1)
    for i, cell in enumerate(cells):
        if isinstance(cell, Batch):
            cells[i] = cell.to_dict()
    return engine_layout(fit_shape(array, column, path, rows, oddities))


def _cells(array: NDArray[Any]) -> list[Any]:
    """Returns the values of rows with axes: arrays of numbers, and lists of objects."""
    return array.tolist() if array.dtype == OBJECT else list(array)


def _dicts(value: Batch, rows: int | None) -> NDArray[Any]:
    """Returns a dict, or one for each row; a group without a row axis has the same values in all rows."""
    if rows is None:
        return _as_object(value.to_dict())
    try:
        has_rows = len(value) == rows
    except TypeError:  # it has no fields, or a field without axes
        has_rows = False
    return object_array([(value[k] if has_rows else value).to_dict() for k in range(rows)])


def fit_shape(array: NDArray[Any], column: Column, path: Path, rows: int | None, oddities: Oddities) -> NDArray[Any]:
    """Reshapes an array to the shape of its column: axes of length one are ignored, smaller arrays are broadcast."""
    target = column.shape if rows is None else (rows, *column.shape)
    if array.shape == target:
        return array
    has_rows = rows is None or (array.ndim > 0 and len(array) == rows)
    if has_rows and _squeezed(_row_shape(array, rows)) == _squeezed(column.shape):
        return array.reshape(target)
    row_short = rows is not None and array.ndim > 0 and len(array) != rows and path[0] in _COUNTED
    try:
        result = np.broadcast_to(array, target) if not row_short else None
    except ValueError:
        result = None
    if result is None:
        raise _misfit(array, column, path, rows)
    if array.ndim or column.shape:  # one number for all rows is usual: it needs no warning
        oddities.record(
            path, "spread", f"came in shape {array.shape} where {target} is stored: it is repeated to fill that"
        )
    return result


def _row_shape(array: NDArray[Any], rows: int | None) -> tuple[int, ...]:
    return array.shape if rows is None else array.shape[1:]


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(length for length in shape if length != 1)


def _misfit(array: NDArray[Any], column: Column, path: Path, rows: int | None) -> ValueError:
    if rows is not None and (array.ndim == 0 or len(array) != rows):
        shape = array.shape
        return ArgumentError(
            f"{dotted(path)} has shape {shape}, but its first axis must have one row for each buffer id: {rows}"
        )
    shape = _row_shape(array, rows)
    if path in FLAGS:
        return ValueError(f"{dotted(path)} must be one flag for each row, got rows of shape {shape}")
    return ValueError(
        f"{dotted(path)} has rows of shape {shape}, but its column has {column.shape}, the shape of the first row"
    )


def _flags(array: NDArray[Any], path: Path, oddities: Oddities) -> NDArray[Any]:
    """Converts numbers to booleans as ``bool`` does. Arrays that hold NaN are returned unchanged, to be refused."""
    if array.dtype == np.bool_ or array.dtype.kind not in "iuf" or np.isnan(array).any():
        return array
    flags: NDArray[np.bool_] = array != 0
    if not np.array_equal(flags, array):
        oddities.record(
            path, "flag", "is a flag, but came as a number that is neither 0 nor 1: all but 0 counts as True"
        )
    return flags


def infer(value: object, path: Path, rows: int | None) -> Column:
    """Chooses the dtype and the shape of a column by the first value that is written to it.

    :raises TypeError: a reward or an end-of-episode flag is not a number.
    """
    if isinstance(value, Batch):
        return Column(OBJECT, ())
    array = as_array(value)
    shape = _row_shape(array, rows)
    if path in FLAGS or path == ("rew",):
        if array.dtype == OBJECT:
            raise TypeError(f"{dotted(path)} must be a number for each row, got {_example(array)!r}")
        return Column(np.dtype(np.bool_), ()) if path in FLAGS else Column(np.dtype(np.float64), shape)
    return Column(array.dtype, shape)


def promoted(value: object, column: Column, path: Path, rows: int | None, stored: NDArray[Any]) -> Column:
    """Chooses a column that can hold the values of a column and a value that does not fit there.

    :param value: as for :func:`fit`, which refused it.
    :param column: the present column.
    :param stored: the values in it.
    :return: a column of float64 if that keeps all numbers exactly, otherwise one of objects. None counts as a number,
        unless the present values are flags.
    """
    wide = Column(np.dtype(np.float64), column.shape)
    flags = column.dtype.kind == "b"
    try:
        array = as_array(value)
        if column.dtype.kind in "biuf" and not (flags and array.dtype == OBJECT):
            fit(array, wide, path, rows, Oddities(), spread=False)
            convert(stored, wide.dtype, path)
            return wide
    except (TypeError, ValueError):
        pass
    return Column(OBJECT, ())


def as_array(value: Any) -> NDArray[Any]:
    """Converts a value to a NumPy array.

    :return: booleans and numbers keep their dtype, in native byte order; all else becomes an array of objects, which
        has no axes for a single object.
    """
    if not isinstance(value, np.ndarray):
        if is_tensor(value):
            value = as_host(value)
        elif isinstance(value, (list, tuple)):
            value = _from_sequence(value)
        else:
            value = (
                np.asarray(value) if isinstance(value, (bool, int, float, complex, np.generic)) else _as_object(value)
            )
    if value.dtype.kind not in "biufcO":
        value = value.astype(object)
    array: NDArray[Any] = value if value.dtype.isnative else value.astype(value.dtype.newbyteorder("="))
    return array


def engine_layout(array: NDArray[Any]) -> NDArray[Any]:
    """Returns the same values in the layout that the engine reads: a base-class array, C-contiguous and aligned."""
    return np.require(array, None, ("C", "A", "E"))


def _as_object(value: object) -> NDArray[Any]:
    result = np.empty((), object)
    result[()] = value
    return result


def _from_sequence(values: list[Any] | tuple[Any, ...]) -> NDArray[Any]:
    if values and all(map(is_tensor, values)):
        return np.stack([as_host(value) for value in values])
    try:
        return np.asarray(values)
    except ValueError:  # ragged: rows of different lengths
        return object_array(values)


def convert(array: NDArray[Any], dtype: np.dtype[Any], path: Path, oddities: Oddities | None = None) -> NDArray[Any]:
    """Converts an array to a column's dtype.

    :raises TypeError: a value would change by more than rounding to a float of lower precision.
    """
    if array.dtype == OBJECT != dtype:
        array = _numbers(array, dtype, path, oddities or Oddities())
    if array.dtype == dtype:
        return array
    if dtype == OBJECT or _is_safe(array.dtype, dtype):
        return array.astype(dtype)
    part = array.real if array.dtype.kind == "c" != dtype.kind else array
    with np.errstate(all="ignore"):
        result = part.astype(dtype)
        kept = _rounded_only(part, result) if _is_rounding(part.dtype, dtype) else _unchanged(part, result)
        kept = kept & (array.imag == 0) if part is not array else kept
    if not np.all(kept):
        place = tuple(int(axis) for axis in np.argwhere(~np.atleast_1d(kept))[0])
        raise TypeError(
            f"{dotted(path)} got {array.dtype}, but its column holds {dtype} (from the first row), and "
            f"{np.atleast_1d(array)[place]} at {place} would become {np.atleast_1d(result)[place]}. "
            f"Give {dtype} values, or make the first row {array.dtype}."
        )
    return result


def _numbers(array: NDArray[Any], dtype: np.dtype[Any], path: Path, oddities: Oddities) -> NDArray[Any]:
    """Converts an array of objects to numbers; outside the strict fields, None becomes NaN in a column of floats."""
    items = array.reshape(-1).tolist()
    missing = [item is None for item in items]
    if any(missing) and dtype.kind == "f" and path[0] not in STRICT:
        oddities.record(path, "none", "came as None where floats are stored: it is kept as NaN")
        items = [np.nan if item is None else item for item in items]
    try:
        result = np.array(items).reshape(array.shape)
    except ValueError:
        result = array
    if result.dtype.kind not in "biufc":
        raise TypeError(
            f"{dotted(path)} got an object ({_example(array)!r}), but its column holds {dtype}, as earlier rows gave "
            "numbers. Give numbers, or put objects under a key of their own."
        )
    return result


def _is_safe(given: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    """Whether a cast keeps every value: NumPy's rule, except that 64-bit integers are not safe as floats."""
    long = given.kind in "iu" and given.itemsize == 8
    return np.can_cast(given, wanted, "safe") and not (long and wanted.kind in "fc")


def _is_rounding(given: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    return given.kind + wanted.kind in ("ff", "fc", "cc")


def _rounded_only(array: NDArray[Any], result: NDArray[Any]) -> NDArray[np.bool_]:
    kept: NDArray[np.bool_] = np.isfinite(result) | ~np.isfinite(array)
    return kept


def _unchanged(array: NDArray[Any], result: NDArray[Any]) -> NDArray[np.bool_]:
    back = result.real if result.dtype.kind == "c" else result
    kept: NDArray[np.bool_] = back.astype(array.dtype) == array
    if array.dtype.kind in "iu" and result.dtype.kind in "iu":
        kept = kept & ((array < 0) == (result < 0))  # the sign bit survives the way there and back
    return kept


def _example(array: NDArray[Any]) -> Any:
    return array.reshape(-1)[0] if array.size else None
