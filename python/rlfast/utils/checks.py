"""Arguments of a kind that cannot be meant, refused where they are given: a later error would name something else."""

from __future__ import annotations

import operator
import warnings
from math import isfinite
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray


class ArgumentError(TypeError, ValueError, AssertionError):
    """Arguments that contradict each other, or do not fit to what they are given to.

    Versions of Tianshou raise different errors for these, and scripts catch what theirs raises: AssertionError in 1.0,
    ValueError later, TypeError where nothing is given.
    """


def count_of(name: str, value: Any, *, rounded: Callable[[float], int] | None = None) -> int:
    """The integer that is meant, which may be given as a float such as ``1e5``.

    :param name: of the argument.
    :param value: what was given for it.
    :param rounded: makes an integer of a number that is not whole, with a warning; None refuses it.
    :raises TypeError: it is no number, not finite, or not whole where it must be.

    >>> count_of("step_per_epoch", 1e4)
    10000
    """
    try:
        return operator.index(value)
    except TypeError:
        number = isinstance(value, Real) and isfinite(value)
    if number and value == int(value):
        return int(value)
    if number and rounded is not None:
        count = rounded(float(value))
        warnings.warn(f"{name}={value} is not whole: {count} is taken", stacklevel=4)
        return count
    raise TypeError(f"{name} must be an integer, got {value!r:.200}")


def check_methods(name: str, value: Any, kind: str, methods: Sequence[str], *, optional: bool = False) -> None:
    """Refuse what lacks methods that are needed, and classes in place of instances. It may be of any class.

    :param name: of the argument.
    :param value: what was given for it.
    :param kind: what it should be, in words.
    :param methods: what it needs.
    :param optional: whether it may be None.
    :raises TypeError: so it is.

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


def check_integer(name: str, value: Any, *, optional: bool = False) -> None:
    """Refuse what is no integer; True is none, and neither is 2.0.

    :param name: of the argument.
    :param value: what was given for it.
    :param optional: whether it may be None.
    :raises TypeError: so it is.

    >>> check_integer("batch_size", 2.5)
    Traceback (most recent call last):
    TypeError: batch_size must be an integer, got 2.5
    """
    if not (optional and value is None) and (isinstance(value, bool) or not isinstance(value, Integral)):
        raise TypeError(f"{name} must be an integer{_or_none(optional)}, got {value!r}")


def check_number(name: str, value: Any, *, optional: bool = False) -> None:
    """Refuse what is no finite number.

    :param name: of the argument.
    :param value: what was given for it.
    :param optional: whether it may be None.
    :raises TypeError: it is no number; True is none.
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
    except OverflowError:  # an integer beyond the largest float
        finite = False
    if not finite:
        raise ValueError(f"{name} must be a finite number, got {value!s:.50}")


def check_copyable(array: NDArray[Any]) -> None:
    """Refuse an index that is a view of more elements than memory can hold: to look at each would take hours.

    :raises MemoryError: it is.
    """
    if array.size > 1 << 26:
        np.empty(array.shape, np.int64)


def check_function(name: str, value: Any, *, optional: bool = False) -> None:
    """Refuse what cannot be called.

    :param name: of the argument.
    :param value: what was given for it.
    :param optional: whether it may be None.
    :raises TypeError: so it is.

    >>> check_function("stop_fn", 195)
    Traceback (most recent call last):
    TypeError: stop_fn must be a function, got 195
    """
    if not callable(value) and not (optional and value is None):
        raise TypeError(f"{name} must be a function{_or_none(optional)}, got {value!r}")


def check_instance(name: str, value: Any, kind: type, *, optional: bool = False) -> None:
    """Refuse an object of another class; classes themselves above all, which are easily given in place of an instance.

    :param name: of the argument.
    :param value: what was given for it.
    :param kind: the class.
    :param optional: whether it may be None.
    :raises TypeError: so it is.

    >>> check_instance("buffer", dict, dict)
    Traceback (most recent call last):
    TypeError: buffer must be a dict, got <class 'dict'>
    """
    if not isinstance(value, kind) and not (optional and value is None):
        raise TypeError(f"{name} must be a {kind.__name__}{_or_none(optional)}, got {value!r:.200}")


def _or_none(optional: bool) -> str:
    return " or None" if optional else ""
