"""``Batch``: named arrays, tensors and batches of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlfast.data.batch.allocation import alloc_by_keys_diff, create_value
from rlfast.data.batch.batch import Batch, wrap
from rlfast.data.batch.distributions import dist_to_atleast_2d, get_len_of_dist, get_sliced_dist
from rlfast.data.types import BatchProtocol, IndexType, TBatch

if TYPE_CHECKING:
    from rlfast.data.types import TArr, arr_type

__all__ = [
    "Batch",
    "BatchProtocol",
    "IndexType",
    "TArr",
    "TBatch",
    "alloc_by_keys_diff",
    "arr_type",
    "create_value",
    "dist_to_atleast_2d",
    "get_len_of_dist",
    "get_sliced_dist",
    "wrap",
]


def __getattr__(name: str) -> Any:
    if name in {"TArr", "arr_type"}:  # they need torch
        from rlfast.data import types

        return getattr(types, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
