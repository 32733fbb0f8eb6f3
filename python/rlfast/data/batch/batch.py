"""``Batch``: a dict of arrays, tensors and nested batches that are indexed, combined and converted together."""

from __future__ import annotations

import inspect
import operator
import pprint
import warnings
from collections.abc import Callable, ItemsView, Iterator, KeysView, Sequence, ValuesView
from copy import deepcopy
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Self, overload

import numpy as np
from numpy.typing import NDArray

from rlfast._core import BatchBase, nested_batch
from rlfast.data.batch.distributions import get_len_of_dist, get_sliced_dist, is_distribution
from rlfast.data.batch.operations import cat, stack
from rlfast.data.batch.parsing import is_batch_set, made, parse_fields, restore, set_fields
from rlfast.data.batch.parsing import parse as _parse
from rlfast.data.batch.values import at_least_2d, equal, is_null, is_number, is_numeric, to_tensor
from rlfast.data.types import IndexType, TBatch
from rlfast.utils.arguments.checks import check_copyable
from rlfast.utils.tree import as_host, is_tensor

if TYPE_CHECKING:
    import torch

_DICT_METHODS = frozenset(name for name in dir(dict) if not name.startswith("_"))


class Batch(BatchBase):
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

    def _init(self, batch_dict: object = None, copy: bool = False, **kwargs: Any) -> None:
        """Does what the native ``__init__`` does not: it handles only numbers, arrays and empty dicts by name."""
        if copy:
            batch_dict, kwargs = deepcopy((batch_dict, kwargs))
        fields = parse_fields(kwargs, type(self))
        if batch_dict is not None:
            fields = self._fields_of(batch_dict) | fields
        set_fields(self, fields)

    @classmethod
    def _fields_of(cls, batch_dict: Any) -> dict[str, Any]:
        if isinstance(batch_dict, dict | Batch):
            return parse_fields(batch_dict.__dict__ if isinstance(batch_dict, Batch) else batch_dict, cls)
        if is_batch_set(batch_dict) or (isinstance(batch_dict, list | tuple) and not batch_dict):
            return stack(batch_dict, cls)
        warnings.warn(
            f"a Batch is made of a dict, a Batch, or a list or array of them; this {type(batch_dict).__name__} has no "
            "field names, so it is ignored",
            stacklevel=3,
        )
        return {}

    # -- a dict --------------------------------------------------------------------------------------------------------

    def __setattr__(self, key: str, value: object) -> None:
        self.__dict__[key] = _parse(value, type(self), key)

    def __getattr__(self, key: str) -> Any:
        # Reached only when there is no such field: the remaining methods of a dict.
        if key in _DICT_METHODS:
            return getattr(self.__dict__, key)
        raise AttributeError(f"{type(self).__name__} has no field {key!r}")

    def __contains__(self, key: object) -> bool:
        return key in self.__dict__

    def keys(self) -> KeysView[str]:
        """Returns the names of the fields."""
        return self.__dict__.keys()

    def get_keys(self) -> KeysView[str]:
        """Returns the names of the fields, also for a batch with a field named "keys"."""
        return self.__dict__.keys()

    def values(self) -> ValuesView[Any]:
        """Returns the values of the fields."""
        return self.__dict__.values()

    def items(self) -> ItemsView[str, Any]:
        """Returns the pairs of name and value."""
        return self.__dict__.items()

    def get(self, key: str, default: object = None) -> Any:
        """Returns the value of a field.

        :param key: the name.
        :param default: the return value if there is no such field.
        """
        return self.__dict__.get(key, default)

    def pop(self, key: str, *default: Any) -> Any:
        """Removes a field and returns its value.

        :param key: the name.
        :param default: the return value if there is no such field.
        :raises KeyError: there is no such field and no default.
        """
        return self.__dict__.pop(key, *default)

    def update(self, batch: dict[str, Any] | Self | None = None, **kwargs: Any) -> None:
        """Sets several fields. If one of them is refused, none is set.

        :param batch: a dict or ``Batch``.
        :param kwargs: fields by name; they override those of ``batch``.
        :raises AssertionError: a key is not a string.
        """
        given = {} if batch is None else batch.__dict__ if isinstance(batch, Batch) else dict(batch.items())
        self.__dict__.update(parse_fields(given, type(self)) | parse_fields(kwargs, type(self)))

    def to_dict(self, recursive: bool = True) -> dict[str, Any]:
        """Returns the fields as a plain dict.

        :param recursive: whether nested batches become dicts too.
        """
        return {k: v.to_dict() if recursive and isinstance(v, Batch) else v for k, v in self.__dict__.items()}

    def is_empty(self, recurse: bool = False) -> bool:
        """Returns whether there are no fields.

        :param recurse: whether a field that is an empty batch, at any depth, does not count.

        >>> from rlfast.data import Batch
        >>> Batch(a=Batch()).is_empty(), Batch(a=Batch()).is_empty(recurse=True)
        (False, True)
        """
        if not recurse:
            return not self.__dict__
        return all(isinstance(value, Batch) and value.is_empty(recurse=True) for value in self.__dict__.values())

    def __repr__(self) -> str:
        name = type(self).__name__
        lines = [
            f"    {key}: {pprint.pformat(value)}".replace("\n", "\n" + " " * (6 + len(key))) + ",\n"
            for key, value in self.__dict__.items()
        ]
        return f"{name}(\n{''.join(lines)})" if lines else f"{name}()"

    # -- copies --------------------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        return {k: v.__getstate__() if isinstance(v, Batch) else v for k, v in self.__dict__.items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        set_fields(self, {k: restore(v, type(self)) for k, v in state.items()})

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        new = object.__new__(type(self))
        memo[id(self)] = new
        set_fields(new, {k: restore(v, type(self)) for k, v in deepcopy(self.__dict__, memo).items()})
        return new

    # -- rows ----------------------------------------------------------------------------------------------------------

    @overload
    def __getitem__(self, index: str) -> Any: ...
    @overload
    def __getitem__(self, index: object) -> Batch: ...
    def __getitem__(self, index: object) -> Any:
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

    def empty_(self, index: IndexType | None = None) -> Self:
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
    def empty(batch: TBatch, index: IndexType | None = None) -> TBatch:
        """Returns a deep copy in which rows are set to 0 (None for objects).

        :param batch: the batch to copy.
        :param index: the rows; None for all of them.
        """
        return deepcopy(batch).empty_(index)

    # -- arithmetic ----------------------------------------------------------------------------------------------------

    def __iadd__(self, other: Self | float) -> Self:
        """Adds a number to every field, or the field of the same name of another ``Batch``.

        Batches whose fields have other names are added in the order of the fields, with a warning.

        :raises ValueError: the two have different numbers of fields.
        :raises TypeError: ``other`` is neither a number nor a ``Batch``.
        """
        if isinstance(other, Batch):
            theirs = other.__dict__
            if theirs.keys() != self.__dict__.keys():
                names = f"{list(self.__dict__)} and {list(theirs)}"
                if len(theirs) != len(self.__dict__):
                    raise ValueError(f"cannot add batches of different fields: {names}")
                warnings.warn(f"batches of different fields are added in their order: {names}", stacklevel=2)
                theirs = dict(zip(self.__dict__, theirs.values(), strict=True))
            return self._inplace(operator.iadd, theirs.__getitem__)
        if is_number(other):
            return self._inplace(operator.iadd, lambda _: other)
        raise TypeError(f"only a Batch or a number can be added to a Batch, got {type(other).__name__}")

    def __add__(self, other: Self | float) -> Self:
        return deepcopy(self).__iadd__(other)

    def __imul__(self, value: float) -> Self:
        """Multiplies every field by a number.

        :raises AssertionError: ``value`` is not a number.
        """
        return self._scaled(operator.imul, value, "multiplied")

    def __mul__(self, value: float) -> Self:
        return deepcopy(self).__imul__(value)

    def __itruediv__(self, value: float) -> Self:
        """Divides every field by a number.

        :raises AssertionError: ``value`` is not a number.
        """
        return self._scaled(operator.itruediv, value, "divided")

    def __truediv__(self, value: float) -> Self:
        return deepcopy(self).__itruediv__(value)

    def _scaled(self, operation: Callable[[Any, Any], Any], value: object, verb: str) -> Self:
        if not is_number(value):
            raise AssertionError(f"a Batch can only be {verb} by a number, got {type(value).__name__}")
        return self._inplace(operation, lambda _: value)

    def _inplace(self, operation: Callable[[Any, Any], Any], operand: Callable[[str], Any]) -> Self:
        fields = self.__dict__
        for key, value in fields.items():
            if not (isinstance(value, Batch) and value.is_empty()):
                fields[key] = operation(value, operand(key))
        return self

    # -- all values ----------------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        """Whether the other is a ``Batch`` with the same names, types and values.

        Tensors are compared as arrays, a single number with an array of one, and NaN is not equal to itself.
        """
        if not isinstance(other, Batch):
            return False
        ours, theirs = self.__dict__, other.__dict__
        return ours.keys() == theirs.keys() and all(equal(value, theirs[key]) for key, value in ours.items())

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
            self._convert(lambda value: _parse(values_transform(value), type(self)))
            return None
        new = {
            key: value.apply_values_transform(values_transform)
            if isinstance(value, Batch)
            else _parse(values_transform(value), type(self), key)
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
                key: value.isnull() if isinstance(value, Batch) else is_null(value)
                for key, value in self.__dict__.items()
            },
        )

    def hasnull(self) -> bool:
        """Returns whether any value is missing."""
        return any(
            value.hasnull() if isinstance(value, Batch) else bool(is_null(value).any())
            for value in self.__dict__.values()
        )

    def set_array_at_key(
        self, arr: NDArray[Any], key: str, index: object = None, default_value: float | None = None
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
            self.__dict__[key] = _parse(arr, type(self), key)
            return
        if key not in self.__dict__:
            try:
                self.__dict__[key] = np.full(len(self), default_value, dtype=arr.dtype)
            except TypeError as error:
                raise TypeError(
                    f"rows without a value cannot be {default_value} among {arr.dtype}; give another default_value"
                ) from error
        elif isinstance(self.__dict__[key], Batch):
            raise ValueError(f"field {key!r} is a Batch; set the rows of its fields")
        self.__dict__[key][index] = arr

    def replace_empty_batches_by_none(self) -> None:
        """Replaces batches without fields by None, at any depth and in place."""
        for key, value in self.__dict__.items():
            if isinstance(value, Batch):
                if value.__dict__:
                    value.replace_empty_batches_by_none()
                else:
                    self.__dict__[key] = None

    def to_at_least_2d(self) -> Self:
        """Returns a new batch whose values have at least two axes: leading axes of length 1 are added."""
        new = self.apply_values_transform(at_least_2d)
        assert new is not None  # noqa: S101 (for type checkers)
        return new

    # -- conversions ---------------------------------------------------------------------------------------------------

    def to_numpy(self) -> Self:
        """Converts all tensors to arrays, in place. The arrays of tensors on the CPU share their memory.

        :return: this batch.
        """
        self._convert(as_host)
        return self

    def to_torch(self, dtype: torch.dtype | None = None, device: str | int | torch.device = "cpu") -> Self:
        """Converts all arrays to tensors, in place. On the CPU they share the memory of writable arrays of that dtype.

        :param dtype: the dtype of all tensors; None keeps the dtype of each field.
        :param device: the device of all tensors.
        :return: this batch.
        :raises TypeError: a field does not hold numbers; no field is converted then.
        """
        self._convert(lambda value: to_tensor(value, dtype, device))
        return self

    def to_numpy_(self) -> None:
        """Converts as :meth:`to_numpy` does, and returns None."""
        self.to_numpy()

    def to_torch_(self, dtype: torch.dtype | None = None, device: str | int | torch.device = "cpu") -> None:
        """Converts as :meth:`to_torch` does, and returns None."""
        self.to_torch(dtype, device)

    def _convert(self, convert: Callable[[Any], Any]) -> None:
        """Replaces every value at any depth by its conversion; if a conversion raises, no value is replaced."""
        for fields, key, value in [(fields, key, convert(value)) for fields, key, value in _leaves(self)]:
            fields[key] = value


_new = object.__new__
# The setter of `__dict__` itself; an assignment would go through `__setattr__` and make a field of that name.
_set_fields: Callable[[Batch, dict[str, Any]], None] = vars(Batch)["__dict__"].__set__


def wrap(fields: dict[str, Any]) -> Batch:
    """Makes a ``Batch`` of a dict of valid values, without copying or checking the dict or the values."""
    batch: Batch = _new(Batch)
    _set_fields(batch, fields)
    return batch


def wrap_nested(value: object) -> Any:
    """A ``Batch`` of nested dicts; anything else as it is."""
    return nested_batch(value, Batch)


#: The value of a nested field that a row assignment does not give.
_NOTHING = Batch()


def parse(value: object) -> Any:
    """Converts a value as assignment to a field does: to an array, a tensor, a ``Batch``, or the object itself."""
    return _parse(value, Batch)


def _check_rows(batch: Batch, value: object) -> None:
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


def _set_rows(batch: Batch, index: object, rows: Batch) -> None:
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


def _leaves(batch: Batch) -> Iterator[tuple[dict[str, Any], str, Any]]:
    """Yields dict, key and value of each field, at any depth, that is not a nested batch."""
    fields = batch.__dict__
    for key, value in fields.items():
        if isinstance(value, Batch):
            yield from _leaves(value)
        else:
            yield fields, key, value
