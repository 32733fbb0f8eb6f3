"""Pickles functions and classes for a process that has not run this script."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

_lock = threading.Lock()


def by_value(fns: Sequence[Callable[[], Any]]) -> bytes:
    """Pickles functions so that a process that has not run this script can call them.

    :param fns: the functions.
    :raises TypeError: a function refers to an object that cannot be pickled.
    """
    try:
        return dumps(list(fns), {str(getattr(fn, "__module__", None)) for fn in fns})
    except Exception as error:
        raise TypeError(
            f"environment functions cannot be sent to other processes ({error}): create such objects inside them, "
            'or use context="fork", which copies this process'
        ) from error


def dumps(thing: Any, modules: Iterable[str]) -> bytes:
    """Pickles ``thing``; contents of those ``modules`` that another process could not import are included."""
    import cloudpickle

    with _lock:
        unknown = [sys.modules[name] for name in modules if name in sys.modules and not importable(name)]
        for module in unknown:
            cloudpickle.register_pickle_by_value(module)
        try:
            return bytes(cloudpickle.dumps(thing, protocol=5))
        finally:
            for module in unknown:
                cloudpickle.unregister_pickle_by_value(module)


def importable(name: str) -> bool:
    """Whether another process with the same ``sys.path`` would import the same module ``name``.

    True for ``__main__`` as well, because cloudpickle includes its contents by itself.
    """
    if name == "__main__":
        return True
    module, path = sys.modules.get(name), None
    if (parent := name.rpartition(".")[0]) and (path := getattr(sys.modules.get(parent), "__path__", None)) is None:
        return False
    for finder in sys.meta_path:
        with suppress(Exception):
            if found := finder.find_spec(name, path):
                known = getattr(module, "__spec__", None)
                return known is None or known.origin == found.origin
    return False
