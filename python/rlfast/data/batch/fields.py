"""Named values with attribute access: the part of ``Batch`` that does not depend on rows."""

from __future__ import annotations

import pprint
import warnings
from collections.abc import Callable, ItemsView, Iterator, KeysView, Sequence, ValuesView
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from rlfast._core import BatchBase
from rlfast.data.batch.values import as_array, is_number, is_numeric, to_tensor
from rlfast.utils.tree import as_host, is_tensor

if TYPE_CHECKING:
    import torch


_STATE = "state"
F = TypeVar("F", bound="Fields")
_DICT_METHODS = frozenset(name for name in dir(dict) if not name.startswith("_"))


class Fields(BatchBase):
    """Values by name, kept in the instance's ``__dict__``. A dict that is assigned becomes an instance of this class.

    The public class is :class:`rlfast.data.Batch`, which adds arithmetic and rows.
    """

    def _init(self, batch_dict: Any = None, copy: bool = False, **kwargs: Any) -> None:
        """Does what the native ``__init__`` does not: it handles only numbers, arrays and empty dicts by name."""
        if copy:
            batch_dict, kwargs = deepcopy((batch_dict, kwargs))
        fields = parse_fields(kwargs, type(self))
        if batch_dict is not None:
            fields = self._fields_of(batch_dict) | fields
        set_fields(self, fields)

    @classmethod
    def _fields_of(cls, batch_dict: Any) -> dict[str, Any]:
        if isinstance(batch_dict, dict | Fields):
            return parse_fields(batch_dict.__dict__ if isinstance(batch_dict, Fields) else batch_dict, cls)
        if is_batch_set(batch_dict) or (isinstance(batch_dict, list | tuple) and not batch_dict):
            return cls._stacked(batch_dict)
        warnings.warn(
            f"a Batch is made of a dict, a Batch, or a list or array of them; this {type(batch_dict).__name__} has no "
            "field names, so it is ignored",
            stacklevel=3,
        )
        return {}

    @classmethod
    def _stacked(cls, rows: Sequence[Any]) -> dict[str, Any]:
        """Stacks dicts and batches, and returns the fields.

        :raises NotImplementedError: the class does not implement it.
        """
        raise NotImplementedError

    # -- a dict --------------------------------------------------------------------------------------------------------

    def __setattr__(self, key: str, value: Any) -> None:
        self.__dict__[key] = parse(value, type(self), key)

    def __getattr__(self, key: str) -> Any:
        # Reached only when there is no such field: the remaining methods of a dict, as in Tianshou.
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

    def get(self, key: str, default: Any = None) -> Any:
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
        given = {} if batch is None else batch.__dict__ if isinstance(batch, Fields) else dict(batch.items())
        self.__dict__.update(parse_fields(given, type(self)) | parse_fields(kwargs, type(self)))

    def to_dict(self, recursive: bool = True) -> dict[str, Any]:
        """Returns the fields as a plain dict.

        :param recursive: whether nested batches become dicts too.
        """
        return {k: v.to_dict() if recursive and isinstance(v, Fields) else v for k, v in self.__dict__.items()}

    def is_empty(self, recurse: bool = False) -> bool:
        """Whether there are no fields.

        :param recurse: whether a field that is an empty batch, at any depth, does not count.

        >>> from rlfast.data import Batch
        >>> Batch(a=Batch()).is_empty(), Batch(a=Batch()).is_empty(recurse=True)
        (False, True)
        """
        if not recurse:
            return not self.__dict__
        return all(isinstance(value, Fields) and value.is_empty(recurse=True) for value in self.__dict__.values())

    def __repr__(self) -> str:
        name = type(self).__name__
        lines = [
            f"    {key}: {pprint.pformat(value)}".replace("\n", "\n" + " " * (6 + len(key))) + ",\n"
            for key, value in self.__dict__.items()
        ]
        return f"{name}(\n{''.join(lines)})" if lines else f"{name}()"

    # -- copies --------------------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        return {k: v.__getstate__() if isinstance(v, Fields) else v for k, v in self.__dict__.items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        set_fields(self, {k: _restore(v, type(self)) for k, v in state.items()})

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        new = object.__new__(type(self))
        memo[id(self)] = new
        set_fields(new, {k: _restore(v, type(self)) for k, v in deepcopy(self.__dict__, memo).items()})
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


# The setter of `__dict__` itself; an assignment would go through `__setattr__` and make a field of that name.
set_fields: Callable[[Fields, dict[str, Any]], None] = vars(Fields)["__dict__"].__set__


def made(cls: type[F], fields: dict[str, Any]) -> F:
    """Makes a batch of a dict of valid values, without copying or checking the dict or the values."""
    new = object.__new__(cls)
    set_fields(new, fields)
    return new


def parse(value: Any, cls: type[Fields], key: str = "") -> Any:
    """Converts a value as assignment to a field does: to an array, a tensor, an instance of ``cls``, or the object.

    A tuple or a list of tensors under the ``key`` "state" is a policy's hidden state and is kept as it is, also within
    a dict: if its tensors were stacked, the first axis would no longer be that of the environments.

    :raises TypeError: a list of tensors that do not stack, or tensors inside an object array.
    """
    if isinstance(value, Fields) or value is None or is_numeric(value):
        return value
    if isinstance(value, dict):
        return made(cls, parse_fields(value, cls, key) if value else {})
    if is_number(value):
        return np.asanyarray(value)
    if is_tensor(value) or (key == _STATE and _is_hidden(value)):
        return value
    if is_batch_set(value):
        return cls(value)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes) and any(map(is_tensor, value)):
        return _of_tensors(value)
    return as_array(value)


def parse_fields(fields: dict[str, Any], cls: type[Fields], within: str = "") -> dict[str, Any]:
    """Returns a new dict of the parsed values; ``within`` is the name of the field that holds the dict.

    :raises AssertionError: a key is not a string.
    """
    if not all(isinstance(key, str) for key in fields):
        raise AssertionError(f"the keys of a Batch are strings, got {list(fields)}")
    return {key: parse(value, cls, _STATE if within == _STATE else key) for key, value in fields.items()}


def _is_hidden(value: Any) -> bool:
    return (isinstance(value, tuple) or (isinstance(value, list) and any(map(is_tensor, value)))) and _has_rows(value)


def _has_rows(tree: Any) -> bool:
    """Whether all leaves are arrays or tensors with at least one axis, and there are any."""
    if isinstance(tree, Fields):
        return all(map(_has_rows, tree.values()))
    if isinstance(tree, dict | tuple | list):
        return bool(tree) and all(map(_has_rows, tree.values() if isinstance(tree, dict) else tree))
    return (is_tensor(tree) or isinstance(tree, np.ndarray)) and tree.ndim > 0


def _restore(value: Any, cls: type[Fields]) -> Any:
    """Restores a field from pickled or copied state: dicts become nested batches, NumPy scalars become arrays."""
    if isinstance(value, dict):
        new = object.__new__(cls)
        new.__setstate__(value)
        return new
    return np.asanyarray(value) if is_number(value) else value


def is_batch_set(value: Any) -> bool:
    """Whether the value is a sequence of dicts or batches: an object array, or a list or tuple that is not empty."""
    if isinstance(value, np.ndarray):
        return value.dtype == object and value.ndim > 0 and all(isinstance(entry, dict | Fields) for entry in value)
    return (
        isinstance(value, list | tuple) and len(value) > 0 and all(isinstance(entry, dict | Fields) for entry in value)
    )


def _of_tensors(values: Sequence[Any]) -> Any:
    """Stacks a sequence of tensors, or makes an array of one-element tensors and other numbers.

    :raises TypeError: the tensors have different shapes, or larger tensors are mixed with other values.
    """
    import torch

    if not all(map(is_tensor, values)):
        if any(is_tensor(value) and value.numel() != 1 for value in values):
            raise TypeError("a list of tensors and other values cannot be a field of a Batch; make all of them tensors")
        return as_array(values)
    try:
        return torch.stack(list(values))
    except RuntimeError as error:
        shapes = [tuple(value.shape) for value in values]
        raise TypeError(f"a list of tensors must stack to be a field of a Batch, got shapes {shapes}") from error


def _leaves(batch: Fields) -> Iterator[tuple[dict[str, Any], str, Any]]:
    """Yields dict, key and value of each field, at any depth, that is not a nested batch."""
    fields = batch.__dict__
    for key, value in fields.items():
        if isinstance(value, Fields):
            yield from _leaves(value)
        else:
            yield fields, key, value
