"""What a single field of a batch may be: an array, a tensor, or any other object as it is."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from numbers import Number
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

#: Dtypes that need no conversion. Quicker than asking for the kind, though not complete: other byte orders are missing.
PLAIN_DTYPES = frozenset(np.dtype(code) for code in "?bhilqpBHILQPefdgFDG")


def is_tensor(value: Any) -> TypeGuard[torch.Tensor]:
    """Whether ``value`` is a torch tensor; who holds one has imported torch, so it is not imported to ask."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_number(value: Any) -> bool:
    """Whether ``value`` is a Python or NumPy number or boolean (a string is a NumPy scalar, but no number)."""
    return isinstance(value, np.number | np.bool_ | Number)


def is_numeric(value: Any) -> TypeGuard[NDArray[Any]]:
    """Whether ``value`` is an array of booleans or numbers."""
    return isinstance(value, np.ndarray) and (
        value.dtype in PLAIN_DTYPES or issubclass(value.dtype.type, np.bool_ | np.number)
    )


def object_array(values: Sequence[Any]) -> NDArray[np.object_]:
    """One entry for each value, whatever the values are (``np.array`` would look for more axes inside them)."""
    array = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        array[i] = value
    return array


def as_array(value: Any) -> Any:
    """An array of booleans, numbers or objects; a single object is given back as it is.

    :raises TypeError: tensors are among the objects of an array, or entries are arrays that NumPy cannot keep as they
        are: of one length, but of different shapes.
    """
    if not _is_array_like(value):
        return value.item() if isinstance(value, np.generic) else value
    try:
        array = _array(value)
    except ValueError as error:
        raise TypeError(
            f"NumPy makes no array of these entries: {error}; pad them, or put each into an array of objects"
        ) from error
    if is_numeric(array):
        return array
    if array.ndim == 0:
        return array.item()
    if any(is_tensor(entry) for entry in array.flat):
        raise TypeError(
            "an array of tensors cannot be a field of a Batch; torch.stack them, or keep one field for each"
        )
    return array


def _array(value: Any) -> NDArray[Any]:
    if isinstance(value, list | tuple) and any(map(_is_container, value)):
        return object_array(value)
    try:
        array = np.asanyarray(value)
    except ValueError:  # rows of different lengths
        array = np.asanyarray(value, dtype=object)
    if is_numeric(array):
        return array
    if isinstance(value, np.ndarray | np.generic):
        return to_objects(array)
    # A list again from the start: beside a string, NumPy has turned the numbers into strings.
    objects = np.asanyarray(value, dtype=object)
    return to_objects(array) if all(isinstance(entry, str | bytes) for entry in objects.flat) else objects


def to_objects(array: NDArray[Any]) -> NDArray[Any]:
    """The array as it is if it holds numbers or objects, else, say for strings, as objects."""
    return array if is_numeric(array) or array.dtype == object else array.astype(object)


def _is_array_like(value: Any) -> bool:
    if isinstance(value, str | bytes):
        return False
    return isinstance(value, np.ndarray | np.generic | Sequence) or hasattr(value, "__array__")


def _is_container(value: Any) -> bool:
    """Whether NumPy would take ``value``, say a graph, for the list of what it holds."""
    return hasattr(value, "__getitem__") and not isinstance(value, str | bytes | dict) and not _is_array_like(value)


def to_tensor(value: Any, dtype: torch.dtype | None, device: torch.device | str | int) -> torch.Tensor:
    """A tensor of an array, number or tensor. It shares memory with a writable array when dtype and device allow it.

    :raises TypeError: the value is neither number nor array of numbers.
    """
    import torch

    if isinstance(value, torch.Tensor):
        return value.to(device=device, dtype=dtype)
    if not is_numeric(array := np.asanyarray(value)):
        raise TypeError(f"cannot make a tensor of {value!r}; wanted numbers or arrays of numbers")
    # A tensor cannot be read-only, nor have negative strides; and a write must not reach an array that forbids it.
    if not array.flags.writeable or any(stride < 0 for stride in array.strides):
        array = array.copy()
    return torch.from_numpy(array).to(device=device, dtype=dtype)
