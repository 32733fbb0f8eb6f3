"""What policies and collectors share about acting in Rust."""

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class NotNativeError(Exception):
    """A policy cannot act in Rust, or a collector cannot collect there; the text says why."""


def tried(make: Callable[..., T], *arguments: Any, **options: Any) -> tuple[T | None, str]:
    """Call a function that may refuse.

    :param make: the function.
    :param arguments: its arguments.
    :param options: its arguments by name.
    :return: what it makes, and an empty text; or None, and why Rust does not do it.
    """
    try:
        return make(*arguments, **options), ""
    except NotNativeError as error:
        return None, str(error)
