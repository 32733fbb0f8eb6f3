"""Rows for the tests of buffers, whose numbers show which row they belong to."""

from typing import Any

import numpy as np

from rlfast.data import Batch


def row(i: int, end: str = "", **more: Any) -> Batch:
    """Row ``i``: ``obs``, ``act`` and ``rew`` are i, ``obs_next`` is i + 1; ``end`` is "T" or "t" (truncated)."""
    fields = {"obs": float(i), "act": i, "rew": float(i), "obs_next": i + 1.0, "info": {}}
    return Batch({**fields, "terminated": end == "T", "truncated": end == "t", **more})


def rows(i: int, number: int, ends: str = "", **more: Any) -> Batch:
    """Returns row ``i`` of ``number`` environments; environment ``k`` counts from 100 * k."""
    ends = ends.ljust(number)
    return Batch.stack([row(100 * k + i, ends[k].strip(), **more) for k in range(number)])


def fill(buffer: Any, ends: str, start: int = 0) -> Any:
    """Adds one row for each letter of ``ends``; a dot does not end the episode."""
    for i, end in enumerate(ends, start):
        buffer.add(row(i, end.strip(".")))
    return buffer


def everything(buffer: Any) -> dict[str, Any]:
    """Returns the state that a raised error must leave unchanged."""
    indices = buffer.sample_indices(0)
    state = {"rows": indices.tolist(), "size": len(buffer), "last": buffer.last_index.tolist()}
    if len(indices):
        batch = buffer[indices]
        state |= {key: np.array(batch[key]).tolist() for key in ("obs", "act", "rew", "done", "obs_next")}
    state["columns"] = sorted((path, str(dtype), tuple(shape)) for path, dtype, shape in buffer._core.columns())
    return state
