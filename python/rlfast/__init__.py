"""rlfast: deep reinforcement learning on Rust replay buffers, under the names of Tianshou 1.0.

The packages are imported on first access, so that ``import rlfast`` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlfast import data as data
    from rlfast import env as env
    from rlfast import exploration as exploration
    from rlfast import export as export
    from rlfast import functional as functional
    from rlfast import interop as interop
    from rlfast import policy as policy
    from rlfast import trainer as trainer
    from rlfast import utils as utils
    from rlfast._core import __version__ as __version__
    from rlfast._core import get_num_threads as get_num_threads
    from rlfast._core import set_num_threads as set_num_threads
    from rlfast.env.registry import make_vec as make_vec
    from rlfast.experiment.agents import load as load
    from rlfast.export.load import load_policy as load_policy

_NAMES = [
    "__version__",
    "data",
    "env",
    "exploration",
    "export",
    "functional",
    "get_num_threads",
    "interop",
    "load",
    "load_policy",
    "make_vec",
    "policy",
    "set_num_threads",
    "trainer",
    "utils",
]


def __getattr__(name: str) -> Any:
    if name in ("__version__", "get_num_threads", "set_num_threads"):
        return getattr(import_module("rlfast._core"), name)
    if name == "make_vec":
        return import_module("rlfast.env.registry").make_vec
    if name == "load_policy":
        return import_module("rlfast.export.load").load_policy
    if name == "load":
        from rlfast.utils.runtime.extras import needed_by

        with needed_by("rlfast.load"):
            return import_module("rlfast.experiment.agents").load
    if name == "__all__":  # for `import *`: all that can be imported with the libraries that are here
        return [one for one in _NAMES if _is_here(one)]
    if name in _NAMES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _is_here(name: str) -> bool:
    from rlfast.utils.runtime.extras import MissingExtra

    try:
        __getattr__(name)
    except MissingExtra:
        return False
    return True


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES})
