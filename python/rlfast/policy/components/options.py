"""The arguments that a constructor passes on to its base class, and the signature that both make together."""

import inspect
from typing import Any, get_args


def full_signature(kind: type) -> tuple[inspect.Signature, frozenset[str]]:
    """Return the signature of a class, with the arguments that ``**options`` of its constructor passes on.

    Options that are annotated as ``Unpack`` of a ``TypedDict`` are those of its keys.

    :param kind: a class whose constructor may take ``**options`` for that of its base class.
    :return: the signature, and the names of arguments of base classes that are not among its own.

    >>> class Learner:
    ...     def __init__(self, *, gamma=0.99, tau=1.0): ...
    >>> class SlowLearner(Learner):
    ...     def __init__(self, *, tau=0.005, **options): ...
    >>> str(full_signature(SlowLearner)[0])
    '(*, tau=0.005, gamma=0.99)'
    """
    found: dict[str, inspect.Parameter] = {}
    refused: set[str] = set()
    passed: Any = None  # the names that all constructors so far pass on, None for any
    for construct in (vars(base)["__init__"] for base in kind.__mro__ if "__init__" in vars(base)):
        options = None
        for parameter in [*inspect.signature(construct).parameters.values()][1:]:
            if parameter.kind is parameter.VAR_KEYWORD:
                options = parameter
            elif passed is None or parameter.name in passed:
                found.setdefault(parameter.name, parameter)
            else:
                refused.add(parameter.name)
        if options is None:
            break
        if declared := get_args(options.annotation):
            names = declared[0].__annotations__.keys()
            passed = names if passed is None else passed & names
    return inspect.Signature(sorted(found.values(), key=lambda one: one.kind)), frozenset(refused - found.keys())
