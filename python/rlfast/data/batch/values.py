"""Conversion of a single value to what a field of a batch can hold: an array, a tensor, or any other object."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Number
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from rlfast._core import BatchBase
from rlfast.data.batch.distributions import dist_to_atleast_2d, is_distribution
from rlfast.data.batch.distributions import equal as equal_distributions
from rlfast.utils.runtime.extras import needed_by
from rlfast.utils.tree import as_host, is_tensor, object_array

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

#: Numeric dtypes in native byte order. Looking a dtype up here is quicker than examining its kind.
PLAIN_DTYPES = frozenset(np.dtype(code) for code in "?bhilqpBHILQPefdgFDG")


def is_number(value: object) -> bool:
    """Whether ``value`` is a Python or NumPy number or boolean."""
    return isinstance(value, np.number | np.bool_ | Number)


def is_numeric(value: object) -> TypeGuard[NDArray[Any]]:
    """Whether ``value`` is an array of booleans or numbers."""
    return isinstance(value, np.ndarray) and (
        value.dtype in PLAIN_DTYPES or issubclass(value.dtype.type, np.bool_ | np.number)
    )


def as_array(value: object) -> Any:
    """Converts a value to an array of booleans, numbers or objects; a single object is returned as it is.

    :raises TypeError: tensors are among the objects of an array, or the entries are arrays of one length but of
        different shapes, of which NumPy makes no array.
    """
    if not _is_array_like(value):
        return value.item() if isinstance(value, np.generic) else value
    try:
        array = _array(value)
    except ValueError as error:
        raise TypeError(
            f"NumPy cannot make an array of these entries: {error}; pad them, or put each into an array of objects"
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


def _array(value: object) -> NDArray[Any]:
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
    # The list is converted a second time: in a list with a string, NumPy has converted the numbers to strings.
    objects = np.asanyarray(value, dtype=object)
    return to_objects(array) if all(isinstance(entry, str | bytes) for entry in objects.flat) else objects


def to_objects(array: NDArray[Any]) -> NDArray[Any]:
    """Returns an array of numbers or objects as it is, and any other one, such as of strings, as objects."""
    return array if is_numeric(array) or array.dtype == object else array.astype(object)


def _is_array_like(value: object) -> bool:
    if isinstance(value, str | bytes):
        return False
    return isinstance(value, np.ndarray | np.generic | Sequence) or hasattr(value, "__array__")


def _is_container(value: object) -> bool:
    """Whether NumPy would read ``value``, such as a graph, as a list of its items."""
    return hasattr(value, "__getitem__") and not isinstance(value, str | bytes | dict) and not _is_array_like(value)


def to_tensor(value: object, dtype: torch.dtype | None, device: torch.device | str | int) -> torch.Tensor:
    """Converts an array, a number or a tensor to a tensor.

    The result shares the memory of a writable array if neither dtype nor device changes.

    :param value: the value.
    :param dtype: the dtype of the result; None keeps that of the value.
    :param device: the device of the result.
    :return: the tensor.
    :raises TypeError: the value is neither a number nor an array of numbers.
    :raises MissingExtra: torch is not installed.
    """
    try:
        import torch
    except ModuleNotFoundError:
        with needed_by("to_torch"):
            raise

    if isinstance(value, torch.Tensor):
        return value.to(device=device, dtype=dtype)
    if not is_numeric(array := np.asanyarray(value)):
        raise TypeError(f"cannot make a tensor of {value!r}; wanted numbers or arrays of numbers")
    # Tensors cannot be read-only or have negative strides, and writes to one must not change a read-only array.
    if not array.flags.writeable or any(stride < 0 for stride in array.strides):
        array = array.copy()
    return torch.from_numpy(array).to(device=device, dtype=dtype)


def at_least_2d(value: Any) -> Any:
    """Adds leading axes of length 1 to a value with fewer than two axes."""
    if is_tensor(value):
        return value.reshape(1, -1) if value.ndim < 2 else value
    return dist_to_atleast_2d(value) if is_distribution(value) else np.atleast_2d(value)


def is_null(value: object) -> NDArray[np.bool_]:
    """Where a value is missing: None, NaN or NaT."""
    array: NDArray[Any] = np.asanyarray(as_host(value))
    if array.dtype.kind in "fc":
        return np.asarray(np.isnan(array))
    if array.dtype.kind in "mM":
        return np.asarray(np.isnat(array))
    if array.dtype != object:
        return np.zeros(array.shape, bool)
    return np.array([_is_missing(entry) for entry in array.flat], bool).reshape(array.shape)


def _is_missing(entry: object) -> bool:
    """Whether an object is None, NaN or NaT; the latter two are not equal to themselves."""
    return entry is None or (isinstance(entry, float | complex | np.generic) and bool(entry != entry))  # noqa: PLR0124


def equal(value: object, other: object) -> bool:
    """Whether two values have the same type, shape and content."""
    if isinstance(value, BatchBase) or isinstance(other, BatchBase):
        return bool(value == other)
    if is_distribution(value):
        return equal_distributions(value, other)
    a, b = (np.atleast_1d(np.asanyarray(as_host(x))) for x in (value, other))
    if a.dtype.kind in "US" and b.dtype == object:
        a = a.astype(object)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype != object:
        return bool(np.array_equal(a, b))
    return all(_equal_objects(x, y) for x, y in zip(a.flat, b.flat, strict=True))


def _equal_objects(x: Any, y: Any) -> bool:
    if isinstance(x, np.ndarray | BatchBase) or is_tensor(x) or is_distribution(x):
        return equal(x, y)
    if x is y:
        return True
    try:
        return type(x) is type(y) and bool(x == y)
    except ValueError:  # lists of arrays: comparing them gives arrays, which have no truth value
        return len(x) == len(y) and all(map(_equal_objects, x, y))
