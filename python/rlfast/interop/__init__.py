"""rlfast's buffers inside other libraries, each under the host's own names and call signatures.

An adapter is a module of its own, imported only where its host is installed::

    from rlfast.interop.sb3 import ReplayBuffer
    from rlfast.interop.cleanrl import ReplayBuffer
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_ADAPTERS = frozenset({"d3rlpy", "cleanrl", "sb3", "tianshou", "torchrl"})


def __getattr__(name: str) -> Any:
    if name in _ADAPTERS:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_ADAPTERS})
