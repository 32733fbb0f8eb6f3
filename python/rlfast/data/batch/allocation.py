"""Allocation of zero-filled rows with the dtypes and shapes of an example."""

from __future__ import annotations

from typing import Any

from rlfast.data.batch.batch import Batch, wrap
from rlfast.data.batch.operations import blank


def create_value(inst: object, size: int, stack: bool = True) -> Any:
    """Allocates ``size`` values with the dtypes and shapes of an example: zeros, or None for objects.

    :param inst: the example: a number, an array, a tensor, or a ``Batch`` or dict of them.
    :param size: how many values.
    :param stack: True if ``inst`` is one value, so that ``size`` becomes a new leading axis; False if ``inst`` is an
        array of values, so that ``size`` replaces its first axis.
    :return: an array, a tensor, or a ``Batch`` of them.
    :raises TypeError: ``inst`` is a single value, but ``stack`` is False.

    >>> import numpy as np
    >>> create_value(Batch(a=[1, 2], b="x"), 3).shape
    [3]
    >>> create_value(np.ones((3, 5), "f4"), 10, stack=False).shape
    (10, 5)
    """
    if isinstance(inst, Batch | dict):
        return wrap({key: create_value(value, size, stack) for key, value in inst.items()})
    return blank(inst, size, stack)


def alloc_by_keys_diff(meta: Batch, batch: Batch, size: int, stack: bool = True) -> None:
    """Allocates, in place, each field of ``batch`` that ``meta`` does not have.

    :param meta: the ``Batch`` that receives the fields; a field that is an empty batch counts as missing.
    :param batch: examples of the values.
    :param size: rows of a new field.
    :param stack: as in :func:`create_value`.
    """
    for key, value in batch.items():
        have = meta.get(key)
        if isinstance(have, Batch) and isinstance(value, Batch):
            alloc_by_keys_diff(have, value, size, stack)
        elif key not in meta or (isinstance(have, Batch) and have.is_empty()):
            meta[key] = create_value(value, size, stack)
