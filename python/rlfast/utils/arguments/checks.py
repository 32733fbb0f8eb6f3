"""Checks of arguments, so that an error names the argument rather than something that fails later."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Sequence
from math import isfinite
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray


class ArgumentError(TypeError, ValueError, AssertionError):
    """Arguments contradict each other, or do not fit the object that they are given to.

    It has three base classes because versions of Tianshou raise different errors here, which scripts catch:
    AssertionError in 1.0, ValueError later, and TypeError for missing arguments.
    """


class ObservationError(ArgumentError, RuntimeError):
    """Observations have another shape than a policy takes. (Without this class, torch raises a RuntimeError.)"""


class NonFiniteError(FloatingPointError, ValueError):
    """Training has met NaN or infinity, in a reward, an observation or a loss."""


class MissingKeyError(KeyError, ArgumentError):
    """A mapping, such as a row of a buffer, lacks a key that is needed."""


def count_of(name: str, value: Any, *, rounded: Callable[[float], int] | None = None, least: int | None = None) -> int:
    """Return an integer that may be given as a float such as ``1e5``.

    :param name: the name of the argument.
    :param value: its value.
    :param rounded: rounds a number that is not whole, with a warning; if it is None, such a number raises.
    :param least: the smallest number allowed; None for any.
    :return: the integer.
    :raises TypeError: ``value`` is not a finite number, or it is not whole and ``rounded`` is None.
    :raises ArgumentError: it is below ``least``; this is a ValueError and an AssertionError.

    >>> count_of("step_per_epoch", 1e4)
    10000
    """
    try:
        count = operator.index(value)
    except TypeError:
        number = isinstance(value, Real) and isfinite(value)
        if not number or (value != int(value) and rounded is None):
            raise TypeError(f"{name} must be an integer, got {value!r:.200}") from None
        count = int(value)
        if rounded is not None and value != count:
            count = rounded(float(value))
            warnings.warn(f"{name}={value} is not whole: {count} is taken", stacklevel=4)
    if least is not None and count < least:
        raise ArgumentError(f"{name} must {f'be at least {least}' if least else 'not be negative'}, got {count}")
    return count


def bounded_count(name: str, value: object, most: int) -> int:
    """Return an integer that counts objects made one by one, with a bound: a huge number would take days to fail.

    :param name: of the argument.
    :param value: what was given for it.
    :param most: how many there may be.
    :raises TypeError: it is no integer.
    :raises ValueError: it is above ``most``.

    >>> bounded_count("layer_num", 2, most=1_000)
    2
    """
    count = count_of(name, value)
    if count > most:
        raise ValueError(f"{name} must be at most {most:,}, got {count:,}")
    return count


def check_methods(name: str, value: object, kind: str, methods: Sequence[str], *, optional: bool = False) -> None:
    """Check that an argument has the methods that are needed; it may be an instance of any class.

    :param name: the name of the argument.
    :param value: its value.
    :param kind: what it should be, in words, for the message.
    :param methods: the names of the methods.
    :param optional: whether it may be None.
    :raises TypeError: a method is missing, or ``value`` is a class.

    >>> check_methods("logger", 5, "logger", ["write"])
    Traceback (most recent call last):
    TypeError: logger must be a logger, got 5, which has no write
    """
    if optional and value is None:
        return
    missing = [method for method in methods if not callable(getattr(value, method, None))]
    if missing or isinstance(value, type):
        lacks = f", which has no {', '.join(missing)}" if missing else ", which is a class: make an instance of it"
        raise TypeError(f"{name} must be a {kind}{_or_none(optional)}, got {value!r:.200}{lacks}")


def check_integer(name: str, value: object, *, optional: bool = False) -> None:
    """Check that an argument is an integer, and not a bool or a float.

    :param name: the name of the argument.
    :param value: its value.
    :param optional: whether it may be None.
    :raises TypeError: it is not an integer.

    >>> check_integer("batch_size", 2.5)
    Traceback (most recent call last):
    TypeError: batch_size must be an integer, got 2.5
    """
    if not (optional and value is None) and (isinstance(value, bool) or not isinstance(value, Integral)):
        raise TypeError(f"{name} must be an integer{_or_none(optional)}, got {value!r}")


def check_number(name: str, value: object, *, optional: bool = False) -> None:
    """Check that an argument is a finite number.

    :param name: the name of the argument.
    :param value: its value.
    :param optional: whether it may be None.
    :raises TypeError: it is not a number, or a bool.
    :raises ValueError: it is NaN or infinite.

    >>> check_number("gamma", float("nan"))
    Traceback (most recent call last):
    ValueError: gamma must be a finite number, got nan
    """
    if optional and value is None:
        return
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number{_or_none(optional)}, got {value!r}")
    try:
        finite = isfinite(value)
    except OverflowError:  # an integer larger than any float
        finite = False
    if not finite:
        raise ValueError(f"{name} must be a finite number, got {value!s:.50}")


def check_copyable(array: NDArray[Any]) -> None:
    """Check that a copy of an index array fits into memory: a broadcast view can have any number of elements.

    :param array: the index array.
    :raises MemoryError: a copy would not fit.
    """
    if array.size > 1 << 26:
        np.empty(array.shape, np.int64)


def check_function(name: str, value: object, *, optional: bool = False) -> None:
    """Check that an argument can be called.

    :param name: the name of the argument.
    :param value: its value.
    :param optional: whether it may be None.
    :raises TypeError: it cannot be called.

    >>> check_function("stop_fn", 195)
    Traceback (most recent call last):
    TypeError: stop_fn must be a function, got 195
    """
    if not callable(value) and not (optional and value is None):
        raise TypeError(f"{name} must be a function{_or_none(optional)}, got {value!r}")


def check_instance(name: str, value: object, kind: type, *, optional: bool = False) -> None:
    """Check that an argument is an instance of a class.

    :param name: the name of the argument.
    :param value: its value.
    :param kind: the class.
    :param optional: whether it may be None.
    :raises TypeError: it is of another class.

    >>> check_instance("buffer", dict, dict)
    Traceback (most recent call last):
    TypeError: buffer must be a dict, got <class 'dict'>
    """
    if not isinstance(value, kind) and not (optional and value is None):
        raise TypeError(f"{name} must be a {kind.__name__}{_or_none(optional)}, got {value!r:.200}")


def _or_none(optional: bool) -> str:
    return " or None" if optional else ""
