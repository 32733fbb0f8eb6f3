"""Shortcuts: what a policy does quicker than by calling the methods that subclasses override.

Learning calls the network where ``forward`` would also choose actions; collectors act in Rust. Each such attribute is
declared with the methods that it stands in for. When a class is made that overrides one of them, the attribute is
replaced by one that calls them. So an override is always called, and no algorithm asks whether there is one.
"""

from collections.abc import Mapping
from inspect import getattr_static
from typing import NamedTuple, TypeAlias


class Shortcut(NamedTuple):
    """The declaration of a shortcut."""

    of: tuple[str, ...]
    """Names of the methods that it stands in for."""
    otherwise: str
    """Name of the attribute that takes its place in a class that overrides one of them."""


Shortcuts: TypeAlias = Mapping[str, Shortcut]


def drop_overridden(kind: type) -> None:
    """Replace the shortcuts of a new class whose methods it overrides, or inherits from a mixin that does.

    A class that also defines the shortcut itself keeps it.

    :param kind: the class; each of its bases may declare ``shortcuts``.

    >>> class Host:
    ...     shortcuts = {"length": Shortcut(("items",), "counted")}
    ...     length = 2
    ...     def __init_subclass__(cls): drop_overridden(cls)
    ...     def items(self): return [1, 2]
    ...     @property
    ...     def counted(self): return len(self.items())
    >>> class Guest(Host):
    ...     def items(self): return [1, 2, 3]
    >>> Host().length, Guest().length
    (2, 3)
    """
    for base in kind.__mro__:
        declared: Shortcuts = vars(base).get("shortcuts", {})
        for name, (of, otherwise) in declared.items():
            if overrides(kind, of, name):
                setattr(kind, name, getattr_static(kind, otherwise))


def overrides(kind: type, names: tuple[str, ...], below: str) -> bool:
    """Return whether a class overrides one of several methods below the definition of another.

    :param kind: the class.
    :param names: names of methods; those that the class does not have do not count.
    :param below: name of the other method.
    """
    places = [next((k for k, base in enumerate(kind.__mro__) if name in vars(base)), None) for name in (*names, below)]
    *found, limit = places
    return limit is not None and any(place is not None and place < limit for place in found)
