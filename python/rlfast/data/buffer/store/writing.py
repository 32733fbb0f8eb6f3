"""Adding rows to a buffer."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from rlfast._core import Replay
from rlfast.data.batch.batch import Batch
from rlfast.data.buffer.store.row_range import RowRange
from rlfast.data.buffer.store.store import Added, Index


def last_frames(batch: Batch | Mapping[str, Any], *, batched: bool) -> dict[str, Any]:
    """Returns rows with the last frame of each stack in ``obs`` and ``obs_next``.

    :param batched: whether every field has a leading axis of rows.
    """
    fields = dict(batch.items())
    for key in {"obs", "obs_next"}.intersection(fields):
        fields[key] = _last_frame(fields[key], batched)
    return fields


def _last_frame(value: Any, batched: bool) -> Any:
    if isinstance(value, dict):
        return {key: _last_frame(inner, batched) for key, inner in value.items()}
    return value[:, -1] if batched else value[-1]


def add_last_frames(core: Replay, batch: Batch | Mapping[str, Any], rings: object = 0) -> Added:
    """Adds rows as ``Replay.add`` does, but only the last frame of each stack in ``obs`` and ``obs_next``."""
    return core.add(last_frames(batch, batched=not isinstance(rings, int)), rings)


def append_all(rows: RowRange, others: RowRange) -> Index:
    """Appends copies of all rows of another buffer, oldest first, and returns their indices in this buffer."""
    if len(others) == 0 or rows.maxsize == 0:
        return np.array([], np.int64)
    assert rows.ring is not None
    fields, count = others.core.hold(partial(_all, others))
    return rows.core.add(fields, np.full(count, rows.ring, np.int64))[0] - rows.base


def move_all(rows: RowRange, others: RowRange) -> Index:
    """Moves all rows of another ring of the same store to this one, and returns their indices in this buffer."""
    assert rows.ring is not None
    assert others.ring is not None
    if len(others) == 0 or rows.maxsize == 0:
        others.store.reset(others.ring, keep_statistics=False)
        return np.array([], np.int64)
    fields, count = _all(others)
    index = rows.core.add(fields, np.full(count, rows.ring, np.int64), others.ring)[0]
    rows.store.release(others.ring)
    return index - rows.base


def _all(rows: RowRange) -> tuple[dict[str, Any], int]:
    """Returns all rows, oldest first, and their number.

    An episode that is running in a ring is truncated where rows of another ring follow.
    """
    live = rows.store.live(rows.only_ring)
    fields = rows.store.take(live, stack_num=1)
    cut_between(fields, np.searchsorted(rows.store.offsets, live, side="right"))
    return fields, len(live)


def cut_between(fields: dict[str, Any], rings: Index) -> None:
    """Truncates running episodes where rows of another ring follow.

    :param fields: rows, whose flags are replaced.
    :param rings: the ring of each row.
    """
    seams = np.flatnonzero(np.diff(rings))
    if len(seams):
        fields["truncated"] = np.array(fields["truncated"], np.bool_)
        fields["truncated"][seams] |= ~np.asarray(fields["terminated"], np.bool_)[seams]
        fields["done"] = fields["terminated"] | fields["truncated"]
