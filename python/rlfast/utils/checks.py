"""Arguments of a kind that cannot be meant, refused where they are given: a later error would name something else."""

from __future__ import annotations

from math import isfinite
from numbers import Integral, Real
from typing import Any


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
    if not isfinite(value):
        raise ValueError(f"{name} must be a finite number, got {value}")


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
