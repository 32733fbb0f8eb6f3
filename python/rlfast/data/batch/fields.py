"""Named values with attribute access: the half of ``Batch`` that does not know of rows."""

from __future__ import annotations

import pprint
import warnings
from collections.abc import Callable, ItemsView, Iterator, KeysView, Sequence, ValuesView
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from rlfast._core import Settling
from rlfast.data.batch.values import as_array, is_number, is_numeric, is_tensor, to_tensor

if TYPE_CHECKING:
    import torch


_STATE = "state"
_DICT_METHODS = frozenset(name for name in dir(dict) if not name.startswith("_"))


class Fields(Settling):
    """Values under names, kept in the instance's ``__dict__``; what is set is parsed, nested dicts to the same class.

    The public class is :class:`rlfast.data.Batch`, which adds arithmetic and rows.
    """

    def _init(self, batch_dict: Any = None, copy: bool = False, **kwargs: Any) -> None:
        """What the native ``__init__`` leaves to do: anything but numbers, arrays and empty dicts by name."""
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
            "names, so nothing of it is kept",
            stacklevel=3,
        )
        return {}

    @classmethod
    def _stacked(cls, rows: Sequence[Any]) -> dict[str, Any]:
        """The fields of dicts and batches, stacked.

        :raises NotImplementedError: of a class that does not know of rows.
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
        """The names of the fields."""
        return self.__dict__.keys()

    def get_keys(self) -> KeysView[str]:
        """The names of the fields, also for a batch with a field named "keys"."""
        return self.__dict__.keys()

    def values(self) -> ValuesView[Any]:
        """The fields."""
        return self.__dict__.values()

    def items(self) -> ItemsView[str, Any]:
        """Pairs of name and field."""
        return self.__dict__.items()

    def get(self, key: str, default: Any = None) -> Any:
        """The field, or ``default``."""
        return self.__dict__.get(key, default)

    def pop(self, key: str, *default: Any) -> Any:
        """Takes a field out.

        :raises KeyError: it is not there and no default is given.
        """
        return self.__dict__.pop(key, *default)

    def update(self, batch: dict[str, Any] | Self | None = None, **kwargs: Any) -> None:
        """Sets the fields of a dict or ``Batch`` and those given by name; nothing is set when one of them is refused.

        :raises AssertionError: a key is not a string.
        """
        given = {} if batch is None else batch.__dict__ if isinstance(batch, Fields) else dict(batch.items())
        self.__dict__.update(parse_fields(given, type(self)) | parse_fields(kwargs, type(self)))

    def to_dict(self, recursive: bool = True) -> dict[str, Any]:
        """The fields as a plain dict, nested batches as nested dicts unless ``recursive`` is False."""
        return {k: v.to_dict() if recursive and isinstance(v, Fields) else v for k, v in self.__dict__.items()}

    def is_empty(self, recurse: bool = False) -> bool:
        """Whether there are no fields or, with ``recurse``, none but nested batches that are empty in the same sense.

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
        """Turns all tensors into arrays, in place; those on the CPU keep their memory.

        :return: this batch.
        """
        self._convert(lambda value: value.detach().cpu().numpy() if is_tensor(value) else value)
        return self

    def to_torch(self, dtype: torch.dtype | None = None, device: str | int | torch.device = "cpu") -> Self:
        """Turns all arrays into tensors, in place; on the CPU they keep the memory of writable arrays of that dtype.

        :param dtype: of all tensors; None keeps each field's own.
        :param device: of all tensors.
        :return: this batch.
        :raises TypeError: a field holds no numbers; then nothing is converted.
        """
        self._convert(lambda value: to_tensor(value, dtype, device))
        return self

    def to_numpy_(self) -> None:
        """Does what :meth:`to_numpy` does, and gives nothing."""
        self.to_numpy()

    def to_torch_(self, dtype: torch.dtype | None = None, device: str | int | torch.device = "cpu") -> None:
        """Does what :meth:`to_torch` does, and gives nothing."""
        self.to_torch(dtype, device)

    def _convert(self, convert: Callable[[Any], Any]) -> None:
        """Replaces every value at any depth, or none if one cannot be converted."""
        for fields, key, value in [(fields, key, convert(value)) for fields, key, value in _leaves(self)]:
            fields[key] = value


# The setter of `__dict__` itself; an assignment would go through `__setattr__` and make a field of that name.
set_fields: Callable[[Fields, dict[str, Any]], None] = vars(Fields)["__dict__"].__set__


def parse(value: Any, cls: type[Fields], key: str = "") -> Any:
    """What a field set to ``value`` holds: an array, a tensor, fields of class ``cls``, or the object itself.

    A tuple, or a list of tensors, under the ``key`` "state" is a policy's hidden state, and stays one, also within a
    dict: stacked, it would have no row for each environment.

    :raises TypeError: a list of tensors that do not stack, or tensors inside an object array.
    """
    if isinstance(value, Fields) or value is None or is_numeric(value):
        return value
    if isinstance(value, dict):
        new = object.__new__(cls)
        set_fields(new, parse_fields(value, cls, key) if value else {})
        return new
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
    """A new dict of the parsed values; ``within`` is the name of the field that the dict itself is.

    :raises AssertionError: a key is not a string.
    """
    if not all(isinstance(key, str) for key in fields):
        raise AssertionError(f"the keys of a Batch are strings, got {list(fields)}")
    return {key: parse(value, cls, _STATE if within == _STATE else key) for key, value in fields.items()}


def _is_hidden(value: Any) -> bool:
    return (isinstance(value, tuple) or (isinstance(value, list) and any(map(is_tensor, value)))) and _has_rows(value)


def _has_rows(tree: Any) -> bool:
    """Whether all leaves are arrays or tensors with an axis at least."""
    if isinstance(tree, dict | Fields):
        return all(map(_has_rows, tree.values()))
    if isinstance(tree, tuple | list):
        return bool(tree) and all(map(_has_rows, tree))
    return (is_tensor(tree) or isinstance(tree, np.ndarray)) and tree.ndim > 0


def _restore(value: Any, cls: type[Fields]) -> Any:
    """A field from its copy: dicts stand for nested batches, and the NumPy scalars of a single row become arrays."""
    if isinstance(value, dict):
        new = object.__new__(cls)
        new.__setstate__(value)
        return new
    return np.asanyarray(value) if is_number(value) else value


def is_batch_set(value: Any) -> bool:
    """Whether the value is a list of dicts or batches, which is a batch itself."""
    if isinstance(value, np.ndarray):
        return value.dtype == object and value.ndim > 0 and all(isinstance(entry, dict | Fields) for entry in value)
    return (
        isinstance(value, list | tuple) and len(value) > 0 and all(isinstance(entry, dict | Fields) for entry in value)
    )


def _of_tensors(values: Sequence[Any]) -> Any:
    """Tensors stacked; tensors of one element beside other numbers as an array.

    :raises TypeError: neither can be.
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
    """The dict, key and value of each field that is no nested batch, at any depth."""
    fields = batch.__dict__
    for key, value in fields.items():
        if isinstance(value, Fields):
            yield from _leaves(value)
        else:
            yield fields, key, value
