"""Adapters of rlfast's buffers to other libraries (hosts), with the names and signatures of the host.

Each adapter is a module, which can be imported if its host is installed::

    from rlfast.interop.sb3 import ReplayBuffer
    from rlfast.interop.cleanrl import ReplayBuffer
"""

from pkgutil import iter_modules

from rlfast.utils.runtime.extras import lazy_names

_ADAPTERS = sorted(found.name for found in iter_modules(__path__) if found.name[0] != "_")

__getattr__ = lazy_names(__name__, {})[0]


def __dir__() -> list[str]:
    return sorted({*globals(), *_ADAPTERS})
