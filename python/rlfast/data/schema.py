"""From nested rows to typed columns: which leaves there are, what their columns hold, and what later rows may put
there.

The first row decides a column's dtype and shape. A later row is converted only where nothing is lost: integers, flags
and whole numbers must come through exactly; a float may be rounded to a narrower float, but stay finite. Everything
that NumPy cannot hold as numbers (strings, None, graphs, environments) is an *object leaf*, kept in NumPy object
columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlfast.data._values import is_tensor, object_array
from rlfast.data.batch import Batch

Path: TypeAlias = tuple[str, ...]
Leaves: TypeAlias = dict[Path, NDArray[Any]]

REQUIRED = ("obs", "act", "rew", "terminated", "truncated")
COMPLETE = ("obs", "act", "obs_next")
"""Groups of which a later row may leave no leaf out; elsewhere what is missing is zero or None."""
_FIXED: dict[Path, np.dtype[Any]] = {
    ("rew",): np.dtype(np.float64),
    ("terminated",): np.dtype(np.bool_),
    ("truncated",): np.dtype(np.bool_),
}
_OBJECT = np.dtype(object)


@dataclass(frozen=True)
class Column:
    """What one row of a leaf is."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]


def spell(path: Path) -> str:
    """The path as it is written in Python: ``obs.agent.position``."""
    return ".".join(path)


def flatten(fields: Mapping[str, Any]) -> tuple[dict[Path, Any], set[Path]]:
    """Leaves by path, and the paths of groups that hold nothing. ``done`` is left out: it follows from the other flags.

    >>> flatten({"obs": {"a": 1, "b": {}}, "done": True})
    ({('obs', 'a'): 1}, {('obs', 'b')})
    """
    leaves: dict[Path, Any] = {}
    groups: set[Path] = set()
    _flatten({key: value for key, value in fields.items() if key != "done"}, (), leaves, groups)
    return leaves, groups


def _flatten(fields: Mapping[str, Any], path: Path, leaves: dict[Path, Any], groups: set[Path]) -> None:
    for key, value in fields.items():
        here = (*path, key)
        inner = value.__dict__ if isinstance(value, Batch) else value
        if not isinstance(inner, Mapping):
            leaves[here] = inner
        elif inner:
            _flatten(inner, here, leaves, groups)
        else:
            groups.add(here)


def nest(leaves: Mapping[Path, Any], groups: Iterable[Path] = ()) -> dict[str, Any]:
    """The reverse of :func:`flatten`, as plain dicts.

    >>> nest({("obs", "a"): 1, ("act",): 2}, [("info",)])
    {'obs': {'a': 1}, 'act': 2, 'info': {}}
    """
    result: dict[str, Any] = {}
    for path, value in leaves.items():
        group = result
        for key in path[:-1]:
            group = group.setdefault(key, {})
        group[path[-1]] = value
    for path in groups:
        group = result
        for key in path:
            group = group.setdefault(key, {})
    return result


def as_array(value: Any) -> NDArray[Any]:
    """Numbers as they are, in native byte order; everything else as an object array (a lone object has no axes)."""
    if not isinstance(value, np.ndarray):
        if is_tensor(value):
            value = value.detach().cpu().numpy()
        elif isinstance(value, (list, tuple)):
            value = _from_sequence(value)
        else:
            value = np.asarray(value) if isinstance(value, (bool, int, float, complex, np.generic)) else _alone(value)
    if value.dtype.kind not in "biufcO":
        value = value.astype(object)
    array: NDArray[Any] = value if value.dtype.isnative else value.astype(value.dtype.newbyteorder("="))
    return array


def plain(array: NDArray[Any]) -> NDArray[Any]:
    """The same values as the engine reads them: of NumPy's own class, in C order without gaps, aligned."""
    return np.require(array, None, ("C", "A", "E"))


def _alone(value: Any) -> NDArray[Any]:
    result = np.empty((), object)
    result[()] = value
    return result


def _from_sequence(values: list[Any] | tuple[Any, ...]) -> NDArray[Any]:
    if values and all(map(is_tensor, values)):
        return np.stack([value.detach().cpu().numpy() for value in values])
    try:
        return np.asarray(values)
    except ValueError:  # ragged: rows of different lengths
        return object_array(values)


def convert(array: NDArray[Any], dtype: np.dtype[Any], path: Path) -> NDArray[Any]:
    """The array in the column's dtype.

    :raises TypeError: where a value would not survive.
    """
    if array.dtype == dtype:
        return array
    if dtype == _OBJECT or _is_safe(array.dtype, dtype):
        return array.astype(dtype)
    if array.dtype == _OBJECT:
        raise TypeError(
            f"{spell(path)} got an object ({_example(array)!r}), but its column holds {dtype}, as earlier rows gave "
            "numbers. Give numbers, or put objects under a key of their own."
        )
    part = array.real if array.dtype.kind == "c" != dtype.kind else array
    with np.errstate(all="ignore"):
        result = part.astype(dtype)
        kept = _rounded_only(part, result) if _is_rounding(part.dtype, dtype) else _unchanged(part, result)
        kept = kept & (array.imag == 0) if part is not array else kept
    if not np.all(kept):
        place = tuple(int(axis) for axis in np.argwhere(~np.atleast_1d(kept))[0])
        raise TypeError(
            f"{spell(path)} got {array.dtype}, but its column holds {dtype} (from the first row), and "
            f"{np.atleast_1d(array)[place]} at {place} would become {np.atleast_1d(result)[place]}. "
            f"Give {dtype} values, or make the first row {array.dtype}."
        )
    return result


def _is_safe(given: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    """NumPy's rule, but for long integers: as floats they may lose their last digits."""
    long = given.kind in "iu" and given.itemsize == 8
    return np.can_cast(given, wanted, "safe") and not (long and wanted.kind in "fc")


def _is_rounding(given: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    return given.kind + wanted.kind in ("ff", "fc", "cc")


def _rounded_only(array: NDArray[Any], result: NDArray[Any]) -> NDArray[np.bool_]:
    kept: NDArray[np.bool_] = np.isfinite(result) | ~np.isfinite(array)
    return kept


def _unchanged(array: NDArray[Any], result: NDArray[Any]) -> NDArray[np.bool_]:
    kept: NDArray[np.bool_] = result.astype(array.dtype) == array
    if array.dtype.kind in "iu" and result.dtype.kind in "iu":
        kept = kept & ((array < 0) == (result < 0))  # the sign bit survives the way there and back
    return kept


def _example(array: NDArray[Any]) -> Any:
    return array.reshape(-1)[0] if array.size else None


@dataclass
class Schema:
    """The columns so far.

    :ivar numbers: leaves that the engine stores.
    :ivar objects: leaves kept as Python objects, with the shape of one row.
    :ivar groups: groups that came empty, such as ``info={}``.
    """

    numbers: dict[Path, Column] = field(default_factory=dict)
    objects: dict[Path, Column] = field(default_factory=dict)
    groups: set[Path] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.numbers or self.objects)

    def columns(self) -> dict[Path, Column]:
        """Both kinds of leaves."""
        return {**self.numbers, **self.objects}

    def names(self) -> list[str]:
        """Top-level names, in the order they came."""
        return list(dict.fromkeys(path[0] for path in (*self.numbers, *self.objects, *sorted(self.groups))))

    def conform(self, fields: Mapping[str, Any], rows: int | None) -> tuple[Leaves, Schema]:
        """Turns rows into what the columns hold; changes nothing.

        :param fields: nested leaves; with ``rows`` given, each has that many rows along its first axis.
        :param rows: None for a single row without that axis.
        :return: every leaf in its column's dtype and shape, and the columns that these rows add.
        :raises KeyError: a field that every row needs is missing.
        :raises TypeError: a dtype that would lose information.
        :raises ValueError: another shape or structure than the first row's.
        """
        given, groups = flatten(fields)
        arrays = {path: as_array(value) for path, value in given.items()}
        self._check_structure(arrays, groups)
        added = Schema(groups=groups - self.groups)
        leaves: Leaves = {}
        columns = self.columns()
        for path, array in arrays.items():
            _check_rows(path, array, rows)
            column = columns.get(path)
            if column is None:
                column = _infer(path, array, rows)
                (added.objects if column.dtype == _OBJECT else added.numbers)[path] = column
            leaves[path] = _shaped(convert(array, column.dtype, path), column, path, rows)
        for path, column in columns.items():
            if path not in leaves:
                shape = column.shape if rows is None else (rows, *column.shape)
                leaves[path] = np.full(shape, None if column.dtype == _OBJECT else 0, column.dtype)
        return leaves, added

    def extend(self, added: Schema) -> None:
        """Takes the new columns in."""
        self.numbers.update(added.numbers)
        self.objects.update(added.objects)
        filled = {path[:depth] for path in (*self.numbers, *self.objects) for depth in range(1, len(path) + 1)}
        self.groups = (self.groups | added.groups) - filled

    def _check_structure(self, given: Mapping[Path, Any], groups: set[Path]) -> None:
        tops = {path[0] for path in (*given, *groups)}
        missing = [key for key in REQUIRED if key not in tops]
        missing += [spell(path) for path in self.columns() if path[0] in COMPLETE and path not in given]
        if missing:
            names = ", ".join(sorted(map(spell, given))) or "nothing"
            raise KeyError(
                f"{', '.join(dict.fromkeys(missing))} missing, got {names}: a row needs {', '.join(REQUIRED)}, "
                "and every leaf of act, obs and obs_next that the first row had"
            )
        known = self.columns()
        for path in given:
            outer = next((path[:depth] for depth in range(1, len(path)) if path[:depth] in known), None)
            if outer is not None or any(other[: len(path)] == path and other != path for other in known):
                was = "an array" if outer is not None else "a group of arrays"
                raise ValueError(f"{spell(path)} does not fit: {spell(outer or path)} was {was} in the first row")


def _check_rows(path: Path, array: NDArray[Any], rows: int | None) -> None:
    if rows is not None and (array.ndim == 0 or len(array) != rows):
        raise ValueError(
            f"{spell(path)} has shape {array.shape}, but its first axis must have one row for each buffer id: {rows}"
        )


def _infer(path: Path, array: NDArray[Any], rows: int | None) -> Column:
    shape = array.shape if rows is None else array.shape[1:]
    fixed = _FIXED.get(path)
    if fixed is not None and array.dtype == _OBJECT:
        raise TypeError(f"{spell(path)} must be a number for each row, got {_example(array)!r}")
    if path in (("terminated",), ("truncated",)) and shape:
        raise ValueError(f"{spell(path)} must be one flag for each row, got rows of shape {shape}")
    return Column(fixed or array.dtype, shape)


def _shaped(array: NDArray[Any], column: Column, path: Path, rows: int | None) -> NDArray[Any]:
    shape = array.shape if rows is None else array.shape[1:]
    if shape != column.shape:
        raise ValueError(
            f"{spell(path)} has rows of shape {shape}, but its column has {column.shape}, the shape of the first row"
        )
    return plain(array)
