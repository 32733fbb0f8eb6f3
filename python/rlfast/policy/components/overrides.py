from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

Kind = TypeVar("Kind", bound=type)


class Replaceable:
    """A class with faster code that bypasses some of its methods, unless a subclass or an assignment has replaced
    them.
    """

    _replaceable: ClassVar[Mapping[str, Any]] = {}

    def is_replaced(self, *names: str) -> bool:
        """Return whether a subclass, or an assignment to the class or the object, has replaced one of these methods.

        :param names: names of methods that were given to :func:`replaceable`.
        """
        own, kind, replaceable = vars(self), type(self), self._replaceable
        return any(name in own or getattr(kind, name) is not replaceable[name] for name in names)


def replaceable(*names: str) -> Callable[[Kind], Kind]:
    """Decorate an algorithm to record its own versions of methods that its faster code bypasses; see
    :meth:`Replaceable.is_replaced`.

    :param names: names of methods of the decorated class.
    :return: the decorator.

    >>> @replaceable("greet")
    ... class Host(Replaceable):
    ...     def greet(self): ...
    >>> class Guest(Host):
    ...     def greet(self): ...
    >>> Host().is_replaced("greet"), Guest().is_replaced("greet")
    (False, True)
    """

    def record(kind: Kind) -> Kind:
        known: dict[str, Any] = {}
        for base in reversed(kind.__mro__):  # the first of several bases has not all
            known |= vars(base).get("_replaceable", {})
        kind._replaceable = known | {name: getattr(kind, name) for name in names}  # type: ignore[attr-defined]  # noqa: SLF001
        return kind

    return record
