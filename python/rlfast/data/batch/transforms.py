"""Operations on all values of a batch: applying functions, finding missing values, comparing batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rlfast.data.batch.arithmetic import Arithmetic
from rlfast.data.batch.distributions import dist_to_atleast_2d, equal, is_distribution
from rlfast.data.batch.fields import Fields, made, parse
from rlfast.utils.tree import as_host, is_tensor


class ValueTransforms(Arithmetic):
    """Fields with operations that read or change all values at once."""

    def __eq__(self, other: object) -> bool:
        """Whether the other is a ``Batch`` with the same names, types and values.

        Tensors are compared as arrays, a single number with an array of one, and NaN is not equal to itself.
        """
        if not isinstance(other, ValueTransforms):
            return False
        ours, theirs = self.__dict__, other.__dict__
        return ours.keys() == theirs.keys() and all(_equal(value, theirs[key]) for key, value in ours.items())

    # Hashed by identity, because a batch can change while it is an element of a set or a key of a dict.
    __hash__ = object.__hash__

    def apply_values_transform(self, values_transform: Callable[[Any], Any], inplace: bool = False) -> Self | None:
        """Applies a function to each value, at any depth, that is not a ``Batch``.

        :param values_transform: takes a value and returns the new one.
        :param inplace: whether the values are replaced in this batch.
        :return: a new batch; None if ``inplace`` is True.

        >>> from rlfast.data import Batch
        >>> Batch(a=[1, 2], b={"c": [3]}).apply_values_transform(np.sum)
        Batch(
            a: array(3),
            b: Batch(
                   c: array(3),
               ),
        )
        """
        if inplace:
            self._convert(lambda value: parse(values_transform(value), type(self)))
            return None
        new = {
            key: value.apply_values_transform(values_transform)
            if isinstance(value, ValueTransforms)
            else parse(values_transform(value), type(self), key)
            for key, value in self.__dict__.items()
        }
        return made(type(self), new)

    def isnull(self) -> Self:
        """Finds missing values: None, NaN and NaT.

        :return: a batch of boolean arrays with the shapes of the values, True where a value is missing.
        """
        return made(
            type(self),
            {
                key: value.isnull() if isinstance(value, ValueTransforms) else _is_null(value)
                for key, value in self.__dict__.items()
            },
        )

    def hasnull(self) -> bool:
        """Whether any value is missing."""
        return any(
            value.hasnull() if isinstance(value, ValueTransforms) else bool(_is_null(value).any())
            for value in self.__dict__.values()
        )

    def set_array_at_key(
        self, arr: NDArray[Any], key: str, index: Any = None, default_value: float | None = None
    ) -> None:
        """Sets a field, or some of its rows.

        :param arr: the rows, an array of shape ``(n, ...)``.
        :param key: the name of the field.
        :param index: the indices of the rows; None for all of them.
        :param default_value: the value of the other rows in a new field; in a field of floats, None becomes NaN.
        :raises ValueError: without an index, ``arr`` has not as many rows as the batch; or the field is a ``Batch``.
        :raises TypeError: the dtype of ``arr`` cannot hold ``default_value``.
        """
        if index is None:
            if len(arr) != len(self):
                raise ValueError(f"got {len(arr)} rows for a Batch of {len(self)}; give their index as well")
            self.__dict__[key] = parse(arr, type(self), key)
            return
        if key not in self.__dict__:
            try:
                self.__dict__[key] = np.full(len(self), default_value, dtype=arr.dtype)
            except TypeError as error:
                raise TypeError(
                    f"rows without a value cannot be {default_value} among {arr.dtype}; give another default_value"
                ) from error
        elif isinstance(self.__dict__[key], Fields):
            raise ValueError(f"field {key!r} is a Batch; set the rows of its fields")
        self.__dict__[key][index] = arr

    def replace_empty_batches_by_none(self) -> None:
        """Replaces batches without fields by None, at any depth and in place."""
        for key, value in self.__dict__.items():
            if isinstance(value, ValueTransforms):
                if value.__dict__:
                    value.replace_empty_batches_by_none()
                else:
                    self.__dict__[key] = None

    def to_at_least_2d(self) -> Self:
        """Returns a new batch whose values have at least two axes: leading axes of length 1 are added."""
        new = self.apply_values_transform(_at_least_2d)
        assert new is not None  # noqa: S101 (for type checkers)
        return new


def _at_least_2d(value: Any) -> Any:
    if is_tensor(value):
        return value.reshape(1, -1) if value.ndim < 2 else value
    return dist_to_atleast_2d(value) if is_distribution(value) else np.atleast_2d(value)


def _is_null(value: Any) -> NDArray[np.bool_]:
    array: NDArray[Any] = np.asanyarray(as_host(value))
    if array.dtype.kind in "fc":
        return np.asarray(np.isnan(array))
    if array.dtype.kind in "mM":
        return np.asarray(np.isnat(array))
    if array.dtype != object:
        return np.zeros(array.shape, bool)
    return np.array([_is_missing(entry) for entry in array.flat], bool).reshape(array.shape)


def _is_missing(entry: Any) -> bool:
    """Whether an object is None, NaN or NaT; the latter two are not equal to themselves."""
    return entry is None or (isinstance(entry, float | complex | np.generic) and bool(entry != entry))  # noqa: PLR0124


def _equal(value: Any, other: Any) -> bool:
    if isinstance(value, ValueTransforms) or isinstance(other, ValueTransforms):
        return bool(value == other)
    if is_distribution(value):
        return equal(value, other)
    a, b = (np.atleast_1d(np.asanyarray(as_host(x))) for x in (value, other))
    if a.dtype.kind in "US" and b.dtype == object:
        a = a.astype(object)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype != object:
        return bool(np.array_equal(a, b))
    return all(_equal_objects(x, y) for x, y in zip(a.flat, b.flat, strict=True))


def _equal_objects(x: Any, y: Any) -> bool:
    if isinstance(x, np.ndarray | ValueTransforms) or is_tensor(x) or is_distribution(x):
        return _equal(x, y)
    if x is y:
        return True
    try:
        return type(x) is type(y) and bool(x == y)
    except ValueError:  # lists of arrays: comparing them gives arrays, which have no truth value
        return len(x) == len(y) and all(map(_equal_objects, x, y))
