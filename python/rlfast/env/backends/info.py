"""The infos of several environments, as a dict of arrays (Gymnasium's form) or as one dict per environment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_NUMBERS = {bool, int, float}
_ARRAYS = (np.ndarray, np.number, np.bool_)


class Info:
    """The infos of ``K`` environments, which are converted to either form only on request.

    :param rows: the number of environments, ``K``.
    :param sparse: the info of each row, by row number; rows that are missing have an empty info.
    :param columns: instead of ``sparse``, the values of each key with first axis ``K``; under ``_key``, a mask ``(K,)``
        of the rows that have the key. A key without a mask belongs to all rows.

    >>> info = Info(2, {1: {"lives": 3}})
    >>> info.columns()
    {'lives': array([0, 3]), '_lives': array([False,  True])}
    >>> info.dicts()
    [{}, {'lives': 3}]
    """

    __slots__ = ("_columns", "_sparse", "rows")

    def __init__(
        self, rows: int, sparse: Mapping[int, dict[str, Any]] | None = None, *, columns: dict[str, Any] | None = None
    ) -> None:
        self.rows = rows
        self._columns = columns
        self._sparse = sparse

    @classmethod
    def of(cls, dicts: Sequence[dict[str, Any]]) -> Info:
        """Makes an instance from one info dict for each environment."""
        return cls(len(dicts), {k: one for k, one in enumerate(dicts) if one} if any(dicts) else None)

    def __bool__(self) -> bool:
        return bool(self._sparse or self._columns)

    def columns(self) -> dict[str, Any]:
        """Returns a new dict in Gymnasium's form: arrays ``(K, ...)``, each with a mask; nested dicts stay nested."""
        if self._columns is None:
            return _columns(self.rows, self._sparse or {})
        columns = dict(self._columns)
        for key in self._columns:
            if not str(key).startswith("_") and (mask := f"_{key}") not in columns:
                columns[mask] = np.ones(self.rows, dtype=bool)
        return columns

    def values(self) -> dict[str, Any]:
        """Returns :meth:`columns` without masks, under keys that are text: the key 7 becomes ``"7"``."""
        if self._columns is None:
            return _named(_columns(self.rows, self._sparse or {}, masks=False))
        return _named(_unmasked(self._columns))

    def dicts(self) -> list[dict[str, Any]]:
        """Returns a list with one new dict for each environment."""
        if self._columns is None:
            sparse = self._sparse
            return [{**sparse[k]} if sparse and k in sparse else {} for k in range(self.rows)]
        return _dicts(self.rows, self._columns)


def _columns(rows: int, sparse: Mapping[int, dict[str, Any]], *, masks: bool = True) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for key in dict.fromkeys(key for one in sparse.values() for key in one):
        present = {k: one[key] for k, one in sparse.items() if key in one}
        columns[key] = _column(key, rows, present, masks=masks)
        if masks:
            columns[f"_{key}"] = mask = np.zeros(rows, dtype=bool)
            mask[list(present)] = True
    return columns


def _named(columns: dict[Any, Any]) -> dict[str, Any]:
    """Makes text of keys, unless all of them are text already."""
    named: dict[str, Any] = {}
    for key, column in columns.items():
        name = str(key)
        while name in named:
            name += "_"
        named[name] = _named(column) if isinstance(column, dict) else column
    return named


def _masks(columns: Mapping[Any, Any]) -> set[str]:
    """Returns which keys are those of masks. An info may have both ``a`` and ``_a``: then ``_a`` has a mask ``__a``."""
    return {f"_{key}" for key in columns if f"__{key}" not in columns and _is_mask(columns.get(f"_{key}"))}


def _is_mask(column: object) -> bool:
    return isinstance(column, np.ndarray) and column.dtype == np.bool_ and column.ndim == 1


def _unmasked(columns: Mapping[Any, Any]) -> dict[Any, Any]:
    masks = _masks(columns)
    return {
        key: _unmasked(column) if isinstance(column, dict) else column
        for key, column in columns.items()
        if key not in masks
    }


def _column(key: str, rows: int, present: dict[int, Any], *, masks: bool) -> Any:
    values = list(present.values())
    is_final = key == "final_obs"  # of any space: as in Gymnasium, an object array of observations
    if not is_final and all(isinstance(value, dict) for value in values):
        return _columns(rows, present, masks=masks)
    filled: NDArray[Any]
    kinds = {*map(type, values)}
    if not is_final and len(kinds) == 1 and kinds <= _NUMBERS and (column := np.array(values)).dtype == kinds.pop():
        filled = np.zeros(rows, column.dtype)
        filled[list(present)] = column
        return filled
    if not is_final and all(type(value) in _NUMBERS or isinstance(value, _ARRAYS) for value in values):
        arrays = [np.asarray(value) for value in values]
        shapes = {array.shape for array in arrays}
        if len(shapes) == 1 and (shapes != {()} or not any(array.dtype.hasobject for array in arrays)):
            filled = np.zeros((rows, *arrays[0].shape), dtype=np.result_type(*arrays))
            filled[list(present)] = arrays
            if len({array.dtype for array in arrays}) == 1 or _all_kept(filled, present, arrays):
                return filled
    filled = np.full(rows, None, dtype=object)
    for k, value in present.items():
        filled[k] = value
    return filled


def _all_kept(filled: NDArray[Any], present: Iterable[int], arrays: Sequence[NDArray[Any]]) -> bool:
    """Returns whether values of several dtypes became equal values of the column's: integers with all digits, and no
    truth values among numbers.
    """
    if len({array.dtype.kind == "b" for array in arrays}) > 1:
        return False
    both = zip(arrays, (filled[k] for k in present), strict=True)
    return all(array.dtype.kind not in "iu" or array.tolist() == column.tolist() for array, column in both)


def _dicts(rows: int, columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = [{} for _ in range(rows)]
    masks = _masks(columns)
    for key, column in columns.items():
        if key in masks:
            continue
        mask = columns[f"_{key}"] if f"_{key}" in masks else None
        values = _dicts(rows, column) if isinstance(column, dict) else column
        for k in range(rows) if mask is None else np.flatnonzero(mask).tolist():
            out[k][key] = values[k]
    return out
