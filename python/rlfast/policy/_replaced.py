from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

Kind = TypeVar("Kind", bound=type)


class Replaceable:
    """A class that takes a quick way only where its own methods would be called on the slow one."""

    _stock: ClassVar[Mapping[str, Any]] = {}

    def is_replaced(self, *names: str) -> bool:
        """Whether a subclass, or an assignment to class or object, has replaced one of these methods.

        :param names: of methods that :func:`stock` was told of.
        """
        own, kind, stock = vars(self), type(self), self._stock
        return any(name in own or getattr(kind, name) is not stock[name] for name in names)


def stock(*names: str) -> Callable[[Kind], Kind]:
    """Note the methods of an algorithm that others may replace, and that it would otherwise not call.

    :param names: of methods of the class that is decorated.

    >>> @stock("greet")
    ... class Host(Replaceable):
    ...     def greet(self): ...
    >>> class Guest(Host):
    ...     def greet(self): ...
    >>> Host().is_replaced("greet"), Guest().is_replaced("greet")
    (False, True)
    """

    def note(kind: Kind) -> Kind:
        known: Mapping[str, Any] = kind._stock  # type: ignore[attr-defined]  # noqa: SLF001
        kind._stock = {**known, **{name: getattr(kind, name) for name in names}}  # type: ignore[attr-defined]  # noqa: SLF001
        return kind

    return note
