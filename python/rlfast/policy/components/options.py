"""The arguments that a constructor passes on to its base class, and the signature that both make together."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any


def full_signature(kind: type) -> inspect.Signature:
    """Return the signature of a class, with the arguments that ``**options`` of its constructor passes on.

    :param kind: a class whose constructor may take ``**options`` for that of its base class.

    >>> class Learner:
    ...     def __init__(self, *, gamma=0.99, tau=1.0): ...
    >>> class SlowLearner(Learner):
    ...     def __init__(self, *, tau=0.005, **options): ...
    >>> str(full_signature(SlowLearner))
    '(*, tau=0.005, gamma=0.99)'
    """
    found: dict[str, inspect.Parameter] = {}
    for construct in _constructors(kind):
        parameters = [*inspect.signature(construct).parameters.values()][1:]
        for parameter in parameters:
            if parameter.kind is not parameter.VAR_KEYWORD:
                found.setdefault(parameter.name, parameter)
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            break
    left_out = getattr(kind, "refused_options", ())
    kept = [parameter for parameter in found.values() if parameter.name not in left_out]
    return inspect.Signature(sorted(kept, key=lambda one: one.kind))


def _constructors(kind: type) -> Iterator[Callable[..., Any]]:
    return (vars(base)["__init__"] for base in kind.__mro__ if "__init__" in vars(base))
