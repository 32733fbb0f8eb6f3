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
    from rlfast.experiment.run import RunResult, resume, train

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "DQNConfig",
    "RunConfig",
    "RunResult",
    "load_checkpoint",
    "load_policy",
    "resume",
    "save_checkpoint",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "checkpoint" if name.startswith(("load", "save")) else "run"
    return getattr(import_module(f"{__name__}.{module}"), name)
