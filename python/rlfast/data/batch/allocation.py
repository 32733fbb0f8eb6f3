"""Room for rows that are like an example."""

from __future__ import annotations

from typing import Any

from rlfast.data.batch.batch import Batch, wrap
from rlfast.data.batch.operations import blank


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
    return blank(inst, size, stack)


def alloc_by_keys_diff(meta: Any, batch: Any, size: int, stack: bool = True) -> None:
    """Adds ``size`` zeros to ``meta`` for each field of ``batch`` that it lacks, or has an empty batch for."""
    for key, value in batch.items():
        have = meta.get(key)
        if isinstance(have, Batch) and isinstance(value, Batch):
            alloc_by_keys_diff(have, value, size, stack)
        elif key not in meta or (isinstance(have, Batch) and have.is_empty()):
            meta[key] = create_value(value, size, stack)
