"""Sampling into arrays of the caller."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlfast.data.batch.batch import Batch, wrap
from rlfast.data.buffer.store import reading
from rlfast.data.buffer.store.row_range import RowRange
from rlfast.data.buffer.store.store import Index, Store

Out = Mapping[str, Any] | Batch


def sample_into(rows: RowRange, draw: Callable[[], Index], out: Out) -> tuple[Batch, Index]:
    """Draws rows and reads them into arrays of the caller.

    :param draw: returns the indices.
    :param out: arrays by top-level name; see :meth:`rlfast.data.ReplayBuffer.sample`.
    :return: the batch and its indices.
    :raises ValueError: if an array does not fit, or a name has no column of numbers.
    """
    given = fillable(rows.store, out)
    indices = draw()
    check_weight(given, indices.shape)
    fields = reading.fields(rows, rows.resolve(indices), out=given)
    fill_weight(fields, given)
    return wrap(fields), indices


def fillable(store: Store, out: Out) -> dict[str, NDArray[Any]]:
    """Returns the arrays of ``out`` by name.

    :raises ValueError: if a name has no column of numbers, or arrays overlap.
    """
    if not store.schema:
        return {}  # there is no row to draw, so drawing raises an error
    names = {path[0] for path in store.schema.numbers if len(path) == 1 and path[0] not in store.assigned}
    names |= {"done"} | ({"obs_next"} if "obs" in names else set()) | ({"weight"} if store.core.prioritized else set())
    given: dict[str, NDArray[Any]] = {}
    for key, value in out.items():
        if isinstance(value, (Batch, Mapping)) and not len(value.keys()):
            continue  # such as the empty info of an earlier batch
        if key not in names:
            raise ValueError(
                f"out gives {key}, but only arrays of numbers that stand at the top of a batch can be filled: "
                f"{', '.join(sorted(names))}"
            )
        given[key] = value
    for (name, one), (other_name, other) in combinations(given.items(), 2):
        if np.may_share_memory(one, other):
            raise ValueError(f"out gives overlapping arrays for {name} and {other_name}")
    return given


def fill_weight(fields: dict[str, Any], given: Mapping[str, NDArray[Any]]) -> None:
    """Copies the importance weights into the array that was given for them."""
    if "weight" in given:
        np.copyto(given["weight"], fields["weight"])
        fields["weight"] = given["weight"]


def check_weight(given: Mapping[str, Any], shape: tuple[int, ...]) -> None:
    """Checks the array for importance weights.

    :raises ValueError: if it is read-only, or has another dtype or shape.
    """
    array = given.get("weight")
    if array is None:
        return
    fits = isinstance(array, np.ndarray) and (array.dtype, array.shape) == (np.dtype(np.float64), shape)
    if not fits or not array.flags.writeable:
        got = f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else repr(array)
        raise ValueError(f"out needs a writable array of dtype float64 and shape {shape} for weight, got {got}")
