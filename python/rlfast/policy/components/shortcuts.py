"""Shortcuts: what a policy does quicker than by calling the methods that subclasses override.

Learning calls the network where ``forward`` would also choose actions; collectors act in Rust. Each such attribute is
declared with the methods that it stands in for. When a class is made that overrides one of them, the attribute is
replaced by one that calls them. So an override is always called, and no algorithm asks whether there is one.
"""

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter, getattr_static, signature
from typing import Any, NamedTuple, TypeAlias, TypeVar

from rlfast.policy.components.batches import as_batch

F = TypeVar("F", bound=Callable[..., Any])

FORWARD = ("__call__", "forward")


class Shortcut(NamedTuple):
    """The declaration of a shortcut."""

    of: tuple[str, ...]
    """Names of the methods that it stands in for."""
    otherwise: str
    """Name of the attribute that takes its place in a class that overrides one of them."""


Shortcuts: TypeAlias = Mapping[str, Shortcut]


def instead_of_forward(read: Callable[[Any], Any]) -> Callable[[F], F]:
    """Declare that a method computes a part of what ``forward`` returns, without choosing actions.

    In a class that overrides ``forward``, the method calls it. Optional arguments other than ``state`` and ``batch``
    are passed on if they are given; other arguments than the first are random numbers, which ``forward`` draws itself.

    :param read: returns the result of the method for that of ``forward``.
    :return: a decorator of methods whose first argument is observations, or a sample that has them.
    """

    def declare(method: F) -> F:
        parameters = signature(method)
        optional = {p.name for p in parameters.parameters.values() if p.default is not Parameter.empty}

        @wraps(method)
        def through_forward(policy: Any, obs: Any, *args: Any, **kwargs: Any) -> Any:
            given = parameters.bind(policy, obs, *args, **kwargs).arguments
            options = {
                name: value
                for name, value in given.items()
                if name in optional and value is not parameters.parameters[name].default
            }
            state, batch = options.pop("state", None), options.pop("batch", None)
            if isinstance(obs, tuple):  # a Sample or a Minibatch
                state, batch = obs.state, obs.batch  # type: ignore[attr-defined]
            return read(policy(as_batch(obs) if batch is None else batch, state, **options))

        method.through_forward = through_forward  # type: ignore[attr-defined]
        return method

    return declare


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
        found = {name: (of, getattr_static(kind, otherwise)) for name, (of, otherwise) in declared.items()}
        for name, value in vars(base).items():
            if through := getattr(value, "through_forward", None):
                found[name] = FORWARD, through
        for name, (of, other) in found.items():
            if overrides(kind, of, name):
                setattr(kind, name, other)


def overridden_by(policy: object, name: str) -> type:
    """Return a class like that of an object, without the shortcuts of a method that is assigned to the object.

    :param policy: the object.
    :param name: the name of the method.
    """
    kind = type(policy)

    @wraps(getattr(kind, name))
    def assigned(self: object, *args: object, **kwargs: object) -> Any:
        return vars(self).get(name, getattr(super(changed, self), name))(*args, **kwargs)

    alike = {key: getattr(kind, key) for key in ("__module__", "__qualname__", "__doc__")}
    changed = type(kind.__name__, (kind,), {name: assigned, **alike})
    return changed


def overrides(kind: type, names: tuple[str, ...], below: str) -> bool:
    """Return whether a class overrides one of several methods below the definition of another.

    :param kind: the class.
    :param names: names of methods; those that the class does not have do not count.
    :param below: name of the other method.
    """
    places = [next((k for k, base in enumerate(kind.__mro__) if name in vars(base)), None) for name in (*names, below)]
    *found, limit = places
    return limit is not None and any(place is not None and place < limit for place in found)
