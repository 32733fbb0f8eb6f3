"""Adapters of rlfast's buffers to other libraries (hosts), with the names and signatures of the host.

Each adapter is a module, which can be imported if its host is installed::

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
