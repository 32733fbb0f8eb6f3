"""Checks of settings and arguments against the types and ranges in their annotations."""

import __future__

import inspect
import json
import sys
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import wraps
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, Union, get_args, get_origin

import numpy as np

from rlfast.utils.arguments.checks import ArgumentError, check_integer, check_number
from rlfast.utils.runtime.extras import needed_by

with needed_by("rlfast.utils.arguments"):
    from annotated_types import Ge, Gt, Interval, Le, Lt

PositiveInt: TypeAlias = Annotated[int, Ge(1)]
TwoOrMore: TypeAlias = Annotated[int, Ge(2)]
NonNegativeInt: TypeAlias = Annotated[int, Ge(0)]
PositiveFloat: TypeAlias = Annotated[float, Gt(0)]
NonNegativeFloat: TypeAlias = Annotated[float, Ge(0)]
UnitFloat: TypeAlias = Annotated[float, Interval(ge=0, le=1)]
"""A number from 0 to 1, such as a probability or a discount."""
FiniteFloat: TypeAlias = Annotated[float, Interval()]
"""A finite number."""

F = TypeVar("F", bound=Callable[..., Any])


def validate(name: str, value: object, hint: Any, *, optional: bool = False) -> Any:
    """Check a value against an annotation, and convert it to the annotated type.

    A float that is whole is converted to an integer, a list to a tuple, and a string to a path.

    :param name: the name of the value, for messages.
    :param value: the value.
    :param hint: ``int``, ``float``, ``bool``, ``str``, ``Path``, a ``Literal``, a ``tuple[..., ...]`` of one of them,
        optionally with bounds of :mod:`annotated_types`, or a ``dict`` of JSON values; and optionally ``| None``.
    :param optional: whether messages add that None is possible.
    :return: the converted value.
    :raises TypeError: the value is of another type.
    :raises ValueError: the value is not finite, or not one of the choices.
    :raises ArgumentError: it is out of range; this is a ValueError and an AssertionError.

    >>> validate("n_step", 3.0, PositiveInt), validate("hidden_sizes", [64, 64], tuple[PositiveInt, ...])
    (3, (64, 64))
    >>> validate("gamma", 1.5, UnitFloat)
    Traceback (most recent call last):
    rlfast.utils.arguments.checks.ArgumentError: gamma must be within 0 and 1, got 1.5
    """
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        if value is None:
            return None
        (kind,) = (one for one in inside if one is not NoneType)
        return validate(name, value, kind, optional=True)
    if origin is Annotated:
        value = validate(name, value, inside[0], optional=optional)
        _check_bounds(name, value, hint.__metadata__, ", or None" if optional else "")
        return value
    if origin is tuple:
        if not isinstance(value, tuple | list):
            raise TypeError(f"{name} must be a sequence, got {value!r:.100}")
        if Ellipsis not in inside and len(value) != len(inside):
            raise ValueError(f"{name} must be {len(inside)} values, got {len(value)}: {value!r:.100}")
        return tuple(validate(name, one, inside[0]) for one in value)
    if origin is dict:
        return _json_object(name, value)
    if hint is int:
        return _integer(name, value, optional=optional)
    if hint is float:
        check_number(name, value, optional=optional)
        return value
    if origin is Literal:
        if value not in inside:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, inside))}, got {value!r:.100}")
        return value
    if hint is Path and isinstance(value, str):
        return Path(value)
    if not isinstance(value, hint):
        words = {bool: "True or False", str: "a text", Path: "a path"}[hint]
        raise TypeError(f"{name} must be {words}{' or None' if optional else ''}, got {value!r:.100}")
    return value


def _json_object(name: str, value: object) -> dict[str, Any]:
    """Returns a copy of a dict, in which all is JSON."""
    try:
        copy = json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"{name} must hold JSON values, got {value!r:.100}") from error
    if copy != value or not isinstance(copy, dict):
        raise TypeError(f"{name} must be a dict of JSON values with strings as keys, got {value!r:.100}")
    return copy


def _integer(name: str, value: Any, *, optional: bool) -> int:
    if not isinstance(value, float | np.floating) or not value.is_integer():
        check_integer(name, value, optional=optional)
    if abs(value) > sys.maxsize:
        raise ValueError(f"{name} must have at most 64 bits, got {value!s:.100}")
    return int(value)


def _check_bounds(name: str, value: Any, bounds: tuple[Any, ...], none: str) -> None:
    for bound in bounds:
        match bound:
            case Interval(gt=None, ge=None, le=None, lt=None):
                continue
            case Interval(ge=low, le=high) if low is not None and high is not None:
                fits, words = low <= value <= high, f"be within {low} and {high}"
            case Ge(ge=0):
                fits, words = value >= 0, "not be negative"
            case Ge(ge=low):
                fits, words = value >= low, f"be at least {low}"
            case Gt(gt=low):
                fits, words = value > low, f"be above {low}"
            case Le(le=high):
                fits, words = value <= high, f"be at most {high}"
            case Lt(lt=high):
                fits, words = value < high, f"be below {high}"
            case _:
                raise NotImplementedError(f"{name} is annotated with {bound!r}, which is not a supported bound")
        if not fits:
            raise ArgumentError(f"{name} must {words}{none}, got {value}")


def did_you_mean(given: Iterable[str], known: Iterable[str]) -> str:
    """Return the end of an error about arguments, with the name that was meant; "" without a guess.

    :param given: the names that were given.
    :param known: the names that exist.

    >>> did_you_mean(["discount"], ["model", "discount_factor"])
    '; did you mean discount_factor?'
    """
    names = [*known]
    unknown = next((name for name in given if name not in names), "")
    return "".join(f"; did you mean {one}?" for one in get_close_matches(unknown, names, 1))


def validate_arguments(function: F) -> F:
    """Decorate a function so that arguments whose annotations have bounds are checked; see :func:`validate`.

    :param function: the function. Its annotations must not be strings: its module must not have
        ``from __future__ import annotations``, and no annotation with bounds may be quoted.
    :return: the decorated function.
    :raises TypeError: the annotations are strings.

    >>> @validate_arguments
    ... def discounted(reward, *, gamma: UnitFloat = 0.99):
    ...     return gamma * reward
    >>> discounted(2.0, gamma=float("nan"))
    Traceback (most recent call last):
    ValueError: gamma must be a finite number, got nan
    """
    if function.__code__.co_flags & __future__.annotations.compiler_flag:
        raise TypeError(
            f"the annotations of {function.__qualname__} are strings: remove `from __future__ import annotations`"
        )
    hints = {name: hint for name, hint in function.__annotations__.items() if "Annotated[" in str(hint)}
    signature = inspect.signature(function)

    @wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        try:
            given = signature.bind(*args, **kwargs)
        except TypeError as error:
            if "unexpected keyword" in str(error):
                name = type(args[0]).__name__ if function.__name__ == "__init__" else function.__qualname__
                raise TypeError(f"{name}() {error}{did_you_mean(kwargs, signature.parameters)}") from None
            return function(*args, **kwargs)  # this raises an error that names the function
        for name, hint in hints.items():
            if name in given.arguments:
                given.arguments[name] = validate(name, given.arguments[name], hint)
        return function(*given.args, **given.kwargs)

    return checked  # type: ignore[return-value]
