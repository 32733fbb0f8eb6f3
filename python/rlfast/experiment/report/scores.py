"""Normalized scores of D4RL (Fu et al., arXiv:2004.07219, section 5): 0 for random actions, and 100 for an expert."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, Final

from rlfast.utils.logger import LoggerGroup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlfast.utils.logger import BaseLogger

REFERENCES: Final[dict[str, tuple[float, float]]] = {
    "halfcheetah": (-280.178953, 12135.0),
    "hopper": (-20.272305, 3234.3),
    "walker2d": (1.629008, 4592.3),
    "ant": (-325.6, 3879.7),
    "pen": (96.262799, 3076.8331017826877),
    "hammer": (-274.856578, 12794.134825156867),
    "door": (-56.512833, 2880.5693087298737),
    "relocate": (-6.425911, 4233.877797728884),
    "kitchen": (0.0, 4.0),
    "antmaze": (0.0, 1.0),
    "maze2d-open": (0.01, 20.66),
    "maze2d-umaze": (23.85, 161.86),
    "maze2d-medium": (13.13, 277.39),
    "maze2d-large": (6.7, 273.99),
    "maze2d-open-dense": (11.17817, 27.166538620695782),
    "maze2d-umaze-dense": (68.537689, 193.66285642381482),
    "maze2d-medium-dense": (44.264742, 297.4552547777125),
    "maze2d-large-dense": (30.569041, 303.4857382709002),
}
"""For each task the mean returns of random actions and of an expert, as the data sets of D4RL state them."""

_GYMNASIUM: Final[dict[str, str]] = {
    "adroithandpen": "pen",
    "adroithandhammer": "hammer",
    "adroithanddoor": "door",
    "adroithandrelocate": "relocate",
    "frankakitchen": "kitchen",
}
"""The names of tasks in Gymnasium-Robotics."""


def task_of(env_id: str) -> str | None:
    """Returns the task of D4RL that an environment is, a key of :data:`REFERENCES`; None if it is none.

    :param env_id: an id such as ``"HalfCheetah-v5"``, ``"AntMaze_UMaze-v4"`` or ``"halfcheetah-medium-v2"``.

    >>> task_of("HalfCheetah-v5"), task_of("maze2d-umaze-dense-v1"), task_of("Pendulum-v1")
    ('halfcheetah', 'maze2d-umaze-dense', None)
    """
    name = re.sub(r"-v\d+$", "", env_id.rpartition(":")[2].rpartition("/")[2]).lower()
    if name in REFERENCES:
        return name
    first = re.split(r"[-_]", name)[0]
    first = _GYMNASIUM.get(first, first)
    return first if first in REFERENCES else None


def score_of(task: str, mean_return: float) -> float:
    """Returns the normalized score.

    :param task: a key of :data:`REFERENCES`.
    :param mean_return: mean undiscounted return of test episodes.

    >>> round(score_of("hopper", 3234.3))
    100
    """
    least, most = REFERENCES[task]
    return 100.0 * (mean_return - least) / (most - least)


def described_score(task: str, mean_return: float) -> str:
    """Returns the normalized score in words.

    :param task: a key of :data:`REFERENCES`.
    :param mean_return: see :func:`score_of`.

    >>> described_score("hopper", 1607.0)
    '50.0, where an expert of D4RL has 100'
    """
    return f"{score_of(task, mean_return):.1f}, where an expert of D4RL has 100"


class RunLoggers(LoggerGroup):
    """Loggers of a run, which also write the memory of the process and the normalized score of each test.

    :param loggers: see :class:`LoggerGroup`.
    :param task: a key of :data:`REFERENCES`; None for no score.
    """

    def __init__(self, loggers: Sequence[BaseLogger], task: str | None) -> None:
        super().__init__(loggers)
        self._task = task

    def log_test_data(self, log_data: dict[str, Any], step: int) -> None:
        """Logs the statistics of a test, with ``normalized_score`` if there is one.

        :param log_data: the statistics.
        :param step: the environment step.
        """
        if self._task is None:
            super().log_test_data(log_data, step)
            return
        score = score_of(self._task, float(log_data["returns_stat"]["mean"]))
        super().log_test_data(log_data | {"normalized_score": score}, step)

    def log_info_data(self, log_data: dict[str, Any], step: int) -> None:
        """Logs totals at the end of an epoch, with the memory of the process.

        :param log_data: the totals.
        :param step: the epoch.
        """
        super().log_info_data(log_data | _memory(), step)


def _memory() -> dict[str, float]:
    """Returns the most memory that the process has had, in MiB, where the system says it."""
    try:
        import resource
    except ImportError:  # Windows
        return {}
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"peak_memory": most / (1 << 20 if sys.platform == "darwin" else 1 << 10)}
