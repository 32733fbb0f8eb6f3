"""Adding rows to a buffer."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from rlfast._core import SchemaMismatch
from rlfast.data._leaves import as_array
from rlfast.data.batch.batch import Batch
from rlfast.data.buffer.options.config import Config
from rlfast.data.buffer.store.row_range import RowRange
from rlfast.data.buffer.store.store import Added, Index
from rlfast.data.schema import flatten, nest


def add_row(rows: RowRange, batch: Batch | Mapping[str, Any], *, batched: bool) -> Added:
    """Appends one row to a ring.

    :param batched: whether every field has a leading axis of length 1.
    """
    rings = np.array([rows.ring or 0], np.int64) if batched or not rows.whole else None
    return add(rows, batch, rings, batched=batched)


def add(rows: RowRange, batch: Batch | Mapping[str, Any], rings: Index | None, *, batched: bool) -> Added:
    """Appends rows.

    :param rings: the ring of each row; None for the only ring.
    :param batched: whether every field has a leading axis of length ``len(rings)``; if not, there is one row.
    """
    fields = stored_fields(rows.config, batch, batched=batched)
    if rings is not None and not batched:
        fields = _with_axis(fields)
    store = rows.store
    if store.plain and not store.quick:
        try:
            return _outside(rows, store.core.add(fields, rings))
        except SchemaMismatch:
            pass
    return _outside(rows, store.add(fields, rings))


def _outside(rows: RowRange, added: Added) -> Added:
    if not rows.base:
        return added
    index, episode_return, length, start = added
    return index - rows.base, episode_return, length, start - rows.base


def stored_fields(config: Config, batch: Batch | Mapping[str, Any], *, batched: bool) -> dict[str, Any]:
    """Returns the fields of a row to be stored: with ``save_only_last_obs``, the last frames of stacks."""
    fields = dict(batch.items())
    if config.save_only_last_obs:
        for key in {"obs", "obs_next"}.intersection(fields):
            fields[key] = _last_frame(fields[key], batched)
    return fields


def append_all(rows: RowRange, others: RowRange) -> Index:
    """Appends copies of all rows of another buffer, oldest first, and returns their indices in this buffer."""
    if len(others) == 0 or rows.maxsize == 0:
        return np.array([], np.int64)
    fields, count = others.core.hold(partial(_all, others))
    return rows.store.add(fields, np.full(count, rows.ring or 0, np.int64))[0] - rows.base


def _all(rows: RowRange) -> tuple[dict[str, Any], int]:
    """Returns all rows, oldest first, and their number."""
    live = rows.store.live(rows.only_ring)
    return rows.store.take(live, stack_num=1), len(live)


def move_all(rows: RowRange, others: RowRange) -> Index:
    """Moves all rows of another ring of the same store to this one, and returns their indices in this buffer."""
    assert others.ring is not None
    if len(others) == 0 or rows.maxsize == 0:
        others.store.reset(others.ring, keep_statistics=False)
        return np.array([], np.int64)
    fields, count = _all(others)
    index = rows.store.add(fields, np.full(count, rows.ring or 0, np.int64), others.ring)[0]
    rows.store.release(others.ring)
    return index - rows.base


def _last_frame(value: Any, batched: bool) -> Any:
    if isinstance(value, dict):
        return {key: _last_frame(inner, batched) for key, inner in value.items()}
    return value[:, -1] if batched else value[-1]


def _with_axis(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a row with a leading axis of length 1."""
    leaves, groups = flatten(fields)
    return nest({path: as_array(leaf)[None] for path, leaf in leaves.items()}, groups)
