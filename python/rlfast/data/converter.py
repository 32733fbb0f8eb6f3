"""Conversion of nested values to NumPy arrays or to torch tensors."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np

from rlfast.data.batch.batch import Batch, parse
from rlfast.data.batch.values import as_array, is_number, to_tensor
from rlfast.utils.tree import as_host, is_tensor

if TYPE_CHECKING:
    import torch


def to_numpy(x: object) -> Any:
    """Converts a value to NumPy arrays.

    Arrays and CPU tensors share their memory with the result; those inside a ``Batch`` are copied. Tensors of bfloat16
    become float32, as NumPy has no such dtype.

    :param x: a tensor, a number, an array, or a dict, ``Batch``, list or tuple of them; None becomes an array of None.
    :return: an array; for a dict or a ``Batch``, a new ``Batch`` of arrays.

    >>> to_numpy({"a": 1.0, "b": [1, 2]})
    Batch(
        a: array(1.),
        b: array([1, 2]),
    )
    """
    if isinstance(x, np.ndarray):
        return x
    if is_tensor(x):
        return as_host(x)
    if x is None:
        return np.array(None, dtype=object)
    if isinstance(x, dict | Batch):
        batch = Batch(x) if isinstance(x, dict) else deepcopy(x)
        batch.to_numpy()
        return batch
    if isinstance(x, list | tuple):
        return to_numpy(parse(x))
    return np.asanyarray(as_array(x))


def to_torch(x: object, dtype: torch.dtype | None = None, device: str | int | torch.device = "cpu") -> Any:
    """Converts a value to torch tensors.

    A writable array outside a ``Batch`` shares its memory with the result if neither dtype nor device changes.

    :param x: an array, a number, a tensor, or a dict, ``Batch``, list or tuple of them.
    :param dtype: the dtype of all tensors; None keeps the dtype of each value.
    :param device: the device of all tensors.
    :return: a tensor; for a dict or a ``Batch``, a new ``Batch`` of tensors.
    :raises TypeError: a value does not hold numbers.

    >>> to_torch(np.arange(3.0, dtype="f4"))
    tensor([0., 1., 2.])
    """
    if isinstance(x, np.ndarray) or is_tensor(x) or is_number(x):
        return to_tensor(x, dtype, device)
    if isinstance(x, dict | Batch):
        batch = Batch(x, copy=True)
        batch.to_torch(dtype, device)
        return batch
    if isinstance(x, list | tuple):
        return to_torch(parse(x), dtype, device)
    raise TypeError(f"cannot make a tensor of {x!r}; wanted numbers, arrays of numbers, or a dict or Batch of them")


def to_torch_as(x: object, y: torch.Tensor) -> Any:
    """Converts a value to torch tensors with the dtype and the device of another tensor.

    :param x: as in :func:`to_torch`.
    :param y: the tensor that gives dtype and device.
    :return: as from :func:`to_torch`.
    :raises AssertionError: ``y`` is not a tensor.
    :raises TypeError: a value does not hold numbers.
    """
    if not is_tensor(y):
        raise AssertionError(f"to_torch_as takes dtype and device from a tensor, got {type(y).__name__}")
    return to_torch(x, dtype=y.dtype, device=y.device)
