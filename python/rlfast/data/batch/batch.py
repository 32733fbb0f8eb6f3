"""``Batch``: a dict of arrays, tensors and nested batches that are indexed, combined and converted together."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator, Sequence
from copy import deepcopy
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Self, overload

import numpy as np
from numpy.typing import NDArray

from rlfast.data.batch.distributions import get_len_of_dist, get_sliced_dist, is_distribution
from rlfast.data.batch.fields import parse as _parse
from rlfast.data.batch.fields import set_fields
from rlfast.data.batch.operations import cat, stack
from rlfast.data.batch.transforms import ValueTransforms
from rlfast.data.batch.values import is_number, is_numeric
from rlfast.data.types import TBatch
from rlfast.utils.arguments.checks import check_copyable
from rlfast.utils.tree import is_tensor


class Batch(ValueTransforms):
    """A dict of arrays, tensors and nested batches whose rows are read and written together.

    Numbers become zero-dimensional arrays, lists become arrays, a dict becomes a ``Batch``, and a list or object array
    of dicts becomes the ``Batch`` of their stacked values; arrays, tensors and batches are kept, not copied. The fields
    live in the instance's ``__dict__``.

    :param batch_dict: a dict, a ``Batch``, or a list, tuple or object array of them, which are stacked.
    :param copy: keep deep copies of all values.
    :param kwargs: fields by name; they override those of ``batch_dict``.
    :raises AssertionError: a key is not a string.
    :raises TypeError: a value is a list of tensors that do not stack.

    >>> data = Batch(obs=Batch(pos=[[0.0, 1.0], [2.0, 3.0]]), act=[4, 5], info={})
    >>> data[0]
    Batch(
        obs: Batch(
                 pos: array([0., 1.]),
             ),
        act: ...4...,
        info: Batch(),
    )
    >>> data[1] = {"act": 6}  # what is not given is set to zero
    >>> data.act, data.obs.pos[1]
    (array([4, 6]), array([0., 0.]))
    >>> len(data), data.shape, [len(part) for part in data.split(1)]
    (2, [], [1, 1])
    """

    # For `inspect.signature`: the native __init__ has no signature of its own.
    __signature__: ClassVar = inspect.Signature(
        [
            inspect.Parameter("batch_dict", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None),
            inspect.Parameter("copy", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=False),
            inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD),
        ]
    )

    if TYPE_CHECKING:

        def __init__(
            self,
            batch_dict: dict[str, Any] | Batch | Sequence[dict[str, Any] | Batch] | NDArray[np.object_] | None = None,
            copy: bool = False,
            **kwargs: Any,
        ) -> None: ...

    @classmethod
    def _stacked(cls, rows: Sequence[Any]) -> dict[str, Any]:
        return stack(rows, Batch)

    # -- rows ----------------------------------------------------------------------------------------------------------

    @overload
    def __getitem__(self, index: str) -> Any: ...
    @overload
    def __getitem__(self, index: Any) -> Batch: ...
    def __getitem__(self, index: Any) -> Any:
        """Returns a field by its name, or a ``Batch`` of the rows at ``index`` of every field.

        :param index: a name, or any index that NumPy takes. Empty nested batches stay empty.
        :raises KeyError: no field has that name.
        :raises IndexError: there are no fields, or a row does not exist.
        """
        fields = self.__dict__
        if isinstance(index, str):
            return fields[index]
        if not fields:
            raise IndexError("a Batch without fields has no rows")
        try:
            return wrap(
                {k: wrap({}) if isinstance(v, Batch) and not v.__dict__ else v[index] for k, v in fields.items()}
            )
        except TypeError:
            if not any(is_distribution(value) for value in fields.values()):
                raise
        rows = {
            k: get_sliced_dist(v, index) if is_distribution(v) else wrap({k: v})[index][k] for k, v in fields.items()
        }
        return wrap(rows)

    def __setitem__(self, index: Any, value: Any) -> None:
        """Sets a field by its name, or the rows at ``index`` of every field.

        :param index: a name, or any index that NumPy takes.
        :param value: the field; for rows, a ``Batch`` or dict. Fields that it does not have are set to 0, or to None
            for objects.
        :raises ValueError: ``value`` is neither a ``Batch`` nor a dict, or has a field that this batch does not have.
        """
        if isinstance(index, str):
            setattr(self, index, value)
        else:
            value = parse(value)
            _check_rows(self, value)
            _set_rows(self, index, value)

    def __iter__(self) -> Iterator[Batch]:
        """Iterates over the rows, as many as the shortest field has; a batch that is a single row yields nothing."""
        if not self.is_empty(recurse=True):
            row = 0
            while True:
                try:
                    item = self[row]
                except IndexError:
                    return
                yield item
                row += 1

    def to_list_of_dicts(self) -> list[dict[str, Any]]:
        """Returns one plain dict for each row."""
        return [row.to_dict() for row in self]

    def __len__(self) -> int:
        """Returns the number of rows of the shortest field; empty nested batches are ignored.

        :raises TypeError: the batch has no fields, or a field is a single value.
        """
        lengths = []
        for key, value in self.__dict__.items():
            if isinstance(value, Batch):
                if not value.is_empty(recurse=True):
                    lengths.append(len(value))
            elif getattr(value, "ndim", 0) > 0:
                lengths.append(len(value))
            elif is_distribution(value):
                lengths.append(get_len_of_dist(value))
            else:
                raise TypeError(f"a Batch has no length when a field is a single value: {key} = {value!r}")
        if not lengths:
            raise TypeError("a Batch without fields has no length")
        return min(lengths)

    @property
    def shape(self) -> list[int]:
        """The smallest of the fields' sizes along each axis that all of them have."""
        shapes = [list(getattr(value, "shape", ())) for value in self.__dict__.values()]
        return [min(sizes) for sizes in zip(*shapes, strict=False)]

    def split(self, size: int, shuffle: bool = True, merge_last: bool = False) -> Iterator[Batch]:
        """Yields mini-batches.

        :param size: rows of each mini-batch; the last may be smaller. -1 means all rows.
        :param shuffle: whether the rows are permuted (by ``numpy.random.permutation``); else they keep their order.
        :param merge_last: whether the rows that do not fill a last mini-batch are added to the one before it.
        :return: an iterator over the mini-batches.
        :raises AssertionError: ``size`` is 0 or below -1.
        """
        length = len(self)
        if size == -1:
            size = max(length, 1)
        if size < 1:
            raise AssertionError(f"a mini-batch has at least 1 row, or -1 for all of them, got size={size}")
        order = np.random.permutation(length) if shuffle else np.arange(length)
        starts = list(range(0, length, size))
        if merge_last and length % size and len(starts) > 1:
            starts.pop()
        for start, stop in pairwise([*starts, length]):
            yield self[order[start:stop]]

    def dropnull(self) -> Batch:
        """Returns the rows in which no value is missing, at any depth; see :meth:`isnull`.

        An array of objects that holds only numbers after that becomes an array of numbers.

        >>> Batch(a=[None, 2, 3], b=[4.0, 5.0, float("nan")]).dropnull().a
        array([2])
        """
        if not self.__dict__:
            return wrap({})
        rows: Batch = self[[i for i, row in enumerate(self) if not row.hasnull()]]
        rows.apply_values_transform(lambda v: list(v) if isinstance(v, np.ndarray) and v.dtype.hasobject else v, True)
        return rows

    # -- many batches --------------------------------------------------------------------------------------------------

    def cat_(self, batches: Batch | dict[str, Any] | Sequence[Batch | dict[str, Any]]) -> None:
        """Appends the rows of batches, in place; see :meth:`cat`.

        :param batches: a batch or dict, or a sequence of them.
        :raises ValueError: as from :meth:`cat`.
        """
        self.__dict__.update(cat(batches, Batch, head=self))

    @staticmethod
    def cat(batches: Sequence[dict[str, Any] | TBatch]) -> TBatch:
        """Concatenates the rows of batches.

        Empty batches are left out. Where a batch lacks a field that another one has, its rows get zeros (None for
        objects).

        :param batches: batches or dicts.
        :return: a new ``Batch``.
        :raises ValueError: an entry is neither a ``Batch`` nor a dict, a field is a single value, or shapes do not fit.

        >>> Batch.cat([Batch(a=[1, 2]), Batch(a=[3], b=[0.5])])
        Batch(
            a: array([1, 2, 3]),
            b: array([0. , 0. , 0.5]),
        )
        """
        batch = Batch()
        batch.cat_(batches)  # type: ignore[arg-type]
        return batch  # type: ignore[return-value]

    def stack_(self, batches: Sequence[Batch | dict[str, Any]], axis: int = 0) -> None:
        """Stacks this batch, unless it is empty, and others, in place; see :meth:`stack`.

        :param batches: batches or dicts.
        :param axis: the position of the new axis.
        :raises ValueError: as from :meth:`stack`.
        """
        self.__dict__.update(stack(batches, Batch, axis, head=self))

    @staticmethod
    def stack(batches: Sequence[dict[str, Any] | TBatch], axis: int = 0) -> TBatch:
        """Stacks batches along a new axis.

        Empty batches are left out. Where a batch lacks a field that another one has, its row is zero (None for
        objects). Values of different shapes become an array of objects, with a warning.

        :param batches: batches or dicts.
        :param axis: the position of the new axis.
        :return: a new ``Batch``.
        :raises ValueError: an entry is neither a ``Batch`` nor a dict, or some batches lack a field and ``axis`` is
            not 0.

        >>> Batch.stack([Batch(a=1), Batch(a=2, b={"c": 0.5})])
        Batch(
            a: array([1, 2]),
            b: Batch(
                   c: array([0. , 0.5]),
               ),
        )
        """
        batch = Batch()
        batch.stack_(batches, axis)  # type: ignore[arg-type]
        return batch  # type: ignore[return-value]

    def empty_(self, index: Any = None) -> Self:
        """Sets rows to 0 (None for objects), in place.

        :param index: the rows; None for all of them.
        :return: this batch.

        >>> Batch(a=[1.0, 2.0], b=["x", "y"]).empty_(0)
        Batch(
            a: array([0., 2.]),
            b: array([None, 'y'], dtype=object),
        )
        """
        fields = self.__dict__
        if isinstance(index, np.ndarray):
            check_copyable(index)
        for key, value in fields.items():
            if isinstance(value, Batch):
                value.empty_(index)
            elif is_tensor(value) or is_numeric(value):
                value[index] = 0
            elif isinstance(value, np.ndarray):
                value[index] = None
            elif value is not None:
                warnings.warn(f"Batch.empty_ replaces the single value of field {key!r}, not a row of it", stacklevel=2)
                fields[key] = value.__class__(0) if is_number(value) else None
        return self

    @staticmethod
    def empty(batch: TBatch, index: Any = None) -> TBatch:
        """Returns a deep copy in which rows are set to 0 (None for objects).

        :param batch: the batch to copy.
        :param index: the rows; None for all of them.
        """
        return deepcopy(batch).empty_(index)


_new = object.__new__


def wrap(fields: dict[str, Any]) -> Batch:
    """Makes a ``Batch`` of a dict of valid values, without copying or checking the dict or the values."""
    batch: Batch = _new(Batch)
    set_fields(batch, fields)
    return batch


def wrap_nested(value: Any) -> Any:
    """A ``Batch`` of nested dicts; anything else as it is."""
    if not isinstance(value, dict):
        return value
    return wrap({key: wrap_nested(inner) if isinstance(inner, dict) else inner for key, inner in value.items()})


#: The value of a nested field that a row assignment does not give.
_NOTHING = Batch()


def parse(value: Any) -> Any:
    """Converts a value as assignment to a field does: to an array, a tensor, a ``Batch``, or the object itself."""
    return _parse(value, Batch)


def _check_rows(batch: Batch, value: Any) -> None:
    """Raises ValueError if ``value`` has a field that ``batch`` lacks, or a ``Batch`` where it has an array."""
    if not isinstance(value, Batch):
        raise ValueError(f"rows of a Batch are set to a Batch or a dict, got {type(value).__name__}")
    fields, given = batch.__dict__, value.__dict__
    if not given.keys() <= fields.keys():
        raise ValueError(f"unknown fields {sorted(given.keys() - fields.keys())}; this Batch has {list(fields)}")
    for key, new in given.items():
        if isinstance(fields[key], Batch):
            _check_rows(fields[key], new if isinstance(new, Batch) else parse(new))
        elif isinstance(new, Batch) and is_numeric(fields[key]):
            raise ValueError(f"field {key!r} is an array, and the value has a Batch for it")


def _set_rows(batch: Batch, index: Any, rows: Batch) -> None:
    given = rows.__dict__
    for key, field in batch.__dict__.items():
        if isinstance(field, Batch):
            _set_rows(field, index, parse(given[key]) if key in given else _NOTHING)
        elif key in given:
            try:
                field[index] = given[key]
            except (TypeError, ValueError):  # an array of one number, for one number
                value = given[key]
                if not (isinstance(value, np.ndarray) and value.size == 1 and value.ndim):
                    raise
                field[index] = value.reshape(())
        else:
            field[index] = 0 if is_numeric(field) or is_tensor(field) else None
