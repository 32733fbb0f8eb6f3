"""Training runs that are configured, recorded, repeatable and resumable.

Names that need torch are imported on first access.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rlfast.utils.runtime.extras import needed_by

with needed_by("rlfast.experiment"):
    from rlfast.experiment.algorithms import ALGORITHMS, Algorithm
    from rlfast.experiment.algorithms.dqn import Config as DQNConfig
    from rlfast.experiment.config import RunConfig

if TYPE_CHECKING:
    from rlfast.experiment.checkpoint import load_checkpoint, load_policy, save_checkpoint
    from rlfast.experiment.evaluate import load
    from rlfast.experiment.run import RunResult, resume, train

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "DQNConfig",
    "RunConfig",
    "RunResult",
    "load",
    "load_checkpoint",
    "load_policy",
    "resume",
    "save_checkpoint",
    "train",
]


_HOMES = {
    **dict.fromkeys(("load_checkpoint", "load_policy", "save_checkpoint"), "checkpoint"),
    "load": "evaluate",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'run')}"), name)
