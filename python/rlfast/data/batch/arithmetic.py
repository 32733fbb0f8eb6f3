"""Adding, multiplying and dividing all fields of a batch at once."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from copy import deepcopy
from typing import Any, Self

from rlfast.data.batch.fields import Fields
from rlfast.data.batch.values import is_number


class Arithmetic(Fields):
    """Fields with arithmetic operators. Empty nested batches stay empty."""

    def __iadd__(self, other: Self | float) -> Self:
        """Adds a number to every field, or the field of the same name of another ``Batch``.

        Batches whose fields have other names are added in the order of the fields, with a warning.

        :raises ValueError: the two have different numbers of fields.
        :raises TypeError: ``other`` is neither a number nor a ``Batch``.
        """
        if isinstance(other, Arithmetic):
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

    def _scaled(self, operation: Callable[[Any, Any], Any], value: Any, verb: str) -> Self:
        if not is_number(value):
            raise AssertionError(f"a Batch can only be {verb} by a number, got {type(value).__name__}")
        return self._inplace(operation, lambda _: value)

    def _inplace(self, operation: Callable[[Any, Any], Any], operand: Callable[[str], Any]) -> Self:
        fields = self.__dict__
        for key, value in fields.items():
            if not (isinstance(value, Fields) and value.is_empty()):
                fields[key] = operation(value, operand(key))
        return self
