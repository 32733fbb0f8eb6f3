"""Drawing and reading rows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from rlfast.data.batch.batch import Batch, wrap
from rlfast.data.buffer.store import priorities
from rlfast.data.buffer.store.row_range import RowRange
from rlfast.data.buffer.store.store import STACKED, Index
from rlfast.utils.arguments.checks import count_of


def draw(rows: RowRange, batch_size: int) -> Index:
    """Draws indices by the sampler.

    :param batch_size: number of rows; 0 for all rows, oldest first.
    """
    if rows.config.relabel is not None:
        return rows.core.hold(partial(_draw, rows, batch_size))
    return _draw(rows, batch_size)


def _draw(rows: RowRange, batch_size: int) -> Index:
    core, relabel = rows.core, rows.config.relabel
    drawn = core.draw(batch_size, rows.only_ring) if batch_size else core.chronological(rows.only_ring)
    if relabel is not None and len(drawn):
        drawn = relabel.choose(core, drawn)
    return rows.outside(drawn)


def batch(rows: RowRange, index: Any) -> Batch:
    """Returns all fields of rows as a new batch.

    Inside of nested fields, the values of one row are scalars, as in Tianshou.

    :raises IndexError: if a row is out of range, or ``index`` is not an index.
    """
    if rows.direct and _is_resolved(rows, index):
        try:
            return wrap(fields(rows, index))
        except IndexError:
            pass
    return rows.core.hold(partial(_batch, rows, index))


def _is_resolved(rows: RowRange, index: Any) -> bool:
    """Returns whether an index of the buffer is one of the store, unless a row is out of range."""
    return type(index) is np.ndarray and index.dtype == np.int64 and rows.whole and index.ndim > 0


def _batch(rows: RowRange, index: Any) -> Batch:
    if _is_resolved(rows, index):
        try:
            return wrap(fields(rows, index))
        except IndexError:
            pass
    here = rows.resolve(index)
    found = fields(rows, here)
    if here.ndim == 0:
        found = {key: scalars(value) if isinstance(value, Batch) else value for key, value in found.items()}
    return wrap(found)


def scalars(value: Any) -> Any:
    """Returns values with NumPy's scalars in place of arrays without axes, which cannot be keys of a dict.

    :param value: an array, or a batch of arrays.
    """
    if isinstance(value, Batch):
        return wrap({key: scalars(part) for key, part in value.items()})
    return value[()] if type(value) is np.ndarray and not value.ndim else value


def joined(rows: RowRange, index: Any, given: dict[str, Any], later: Index, names: tuple[str, ...]) -> Batch:
    """Returns rows as a batch that has the ``given`` fields, and the fields ``names`` of the rows ``later``.

    :raises IndexError: if a row is out of range, or ``index`` is not an index.
    """
    return rows.core.hold(partial(_joined, rows, index, given, later, names))


def _joined(rows: RowRange, index: Any, given: dict[str, Any], later: Index, names: tuple[str, ...]) -> Batch:
    if _is_resolved(rows, index):
        try:
            return _joined_at(rows, index, given, later, names)
        except IndexError:
            pass
    return _joined_at(rows, rows.resolve(index), given, rows.resolve(later), names)


def _joined_at(rows: RowRange, here: Index, given: dict[str, Any], later: Index, names: tuple[str, ...]) -> Batch:
    if not rows.store.seen and not rows.store.schema:
        return wrap(_no_rows() | given)
    order = rows.store.fields
    found = fields(rows, here, [name for name in order if name not in given and name not in names])
    found |= fields(rows, later, list(names)) | given
    batch = {name: found.pop(name) for name in order}
    if not rows.direct and rows.core.prioritized:
        batch["weight"] = priorities.weights(rows, here)
    return wrap(batch | found)


def fields(
    rows: RowRange,
    here: Index,
    keys: list[str] | None = None,
    stack_num: int | None = None,
    out: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Returns fields of rows of the store, with hindsight goals; all fields include importance weights.

    :param here: rows of the store, of any shape.
    :param keys: names of fields at the top level; None for all.
    :param stack_num: number of frames of a stack; None for the buffer's own.
    :param out: arrays to be filled, by name.
    """
    store = rows.store
    if not store.seen and not store.schema and here.size == 0:
        return _no_rows()
    found = store.take(here, keys, rows.stack_num if stack_num is None else stack_num, out)
    if rows.config.relabel is not None:
        rows.config.relabel.apply(here, rows.core.goals(here), found, store.take)
    if keys is None and not rows.direct and rows.core.prioritized:
        found["weight"] = priorities.weights(rows, here)
    return found


def field(rows: RowRange, index: Any, key: str, default_value: Any, stack_num: int | None) -> Any:
    """Returns one field of rows, with frame stacks; see :meth:`rlfast.data.ReplayBuffer.get`."""
    store = rows.store
    rebuilt = key == "obs_next" and rows.config.ignore_obs_next  # read from the rows after them
    if not (store.schema if rebuilt else store.has(key)):
        if default_value is not None:
            return default_value
        raise KeyError(f"{key}: there is no such field, but {', '.join(store.names()) or 'nothing at all'}")
    depth = rows.stack_num if stack_num is None else count_of("stack_num", stack_num, least=1)
    if rows.config.relabel is None and depth == 1 and _is_resolved(rows, index):
        try:
            return _stacked(rows, index, key, depth)
        except IndexError:
            pass
    return rows.core.hold(partial(_field, rows, index, key, depth))


def _field(rows: RowRange, index: Any, key: str, depth: int) -> Any:
    here = rows.resolve(index)
    value = _stacked(rows, here, key, depth)
    return value if here.ndim else scalars(value)


def _stacked(rows: RowRange, here: Index, key: str, depth: int) -> Any:
    if depth > 1 and key not in STACKED:
        here, depth = rows.store.frames(here, depth), 1
    value = fields(rows, here, [key], depth).get(key)
    return Batch() if value is None else value


def _no_rows() -> dict[str, Any]:
    """Returns empty fields, for a buffer without columns."""
    flag = np.zeros(0, np.bool_)
    empty: dict[str, Any] = {key: Batch() for key in ("obs", "act", "obs_next", "info", "policy")}
    return empty | {"rew": np.zeros(0), "terminated": flag, "truncated": flag.copy(), "done": flag.copy()}
