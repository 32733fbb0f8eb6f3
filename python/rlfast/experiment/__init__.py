"""Training runs that are configured, recorded, repeatable and resumable.

Names that need torch are imported on first access.
"""

from typing import TYPE_CHECKING

from rlfast.utils.runtime.extras import lazy_names, needed_by

with needed_by("rlfast.experiment"):
    from rlfast.experiment.algorithms import ALGORITHMS, Algorithm
    from rlfast.experiment.algorithms.dqn import Config as DQNConfig
    from rlfast.experiment.config import RunConfig

if TYPE_CHECKING:
    from rlfast.experiment.agents import evaluate, load
    from rlfast.experiment.checkpoint import load_checkpoint, load_policy, save_checkpoint
    from rlfast.experiment.run import RunResult, resume, train

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "DQNConfig",
    "RunConfig",
    "RunResult",
    "evaluate",
    "load",
    "load_checkpoint",
    "load_policy",
    "resume",
    "save_checkpoint",
    "train",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "agents": ("evaluate", "load"),
        "checkpoint": ("load_checkpoint", "load_policy", "save_checkpoint"),
        "run": ("RunResult", "resume", "train"),
    },
)
