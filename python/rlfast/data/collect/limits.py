"""The limits of a collect: when it is done, and which environments are stepped until then."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]


class Limit(ABC):
    """Decides after every vector step whether the collect is done and which environments are stepped next."""

    ready: Ids
    """Environments to step next, ascending."""
    discards = True
    """Whether all environments are reset after the collect, because some were left within an episode."""
    _missing: int
    """How many steps or episodes are still to be collected."""

    @property
    @abstractmethod
    def whole_steps(self) -> tuple[str, Any] | None:
        """The limit as :func:`rlfast._core.collect` takes it; None for no vector step there."""

    @abstractmethod
    def resume(self, ready: Ids, left: Any, steps: int) -> None:
        """Takes what a collect in Rust has left.

        :param ready: as :attr:`ready`.
        :param left: what is left of :attr:`whole_steps`.
        :param steps: how many steps of environments were taken.
        """

    @property
    def reached(self) -> bool:
        """Whether enough was collected."""
        return self._missing <= 0

    @abstractmethod
    def advance(self, steps: int, ended: Ids) -> None:
        """Counts a vector step.

        :param steps: the number of environments that were stepped.
        :param ended: the environments whose episode ended in this step.
        """


class StepLimit(Limit):
    """Ends a collect after a number of environment steps, rounded up to whole vector steps.

    :param n_step: the number of steps.
    :param all_ids: the indices of all environments, ascending. They are not copied, to keep short collects quick.
    :param exact: whether the last vector step takes only as many environments as are needed.
    """

    discards = False

    def __init__(self, n_step: int, all_ids: Ids, *, exact: bool = False) -> None:
        self._missing = n_step
        self._all = all_ids
        self._exact = exact
        self.ready = self._all[:n_step] if exact else self._all

    @property
    def whole_steps(self) -> tuple[str, Any] | None:
        """All vector steps of all environments but the last, whose transitions the next actions may need."""
        steps = (self._missing if self._exact else self._missing + len(self._all) - 1) // len(self._all) - 1
        return ("steps", steps) if steps > 0 else None

    def resume(self, ready: Ids, left: Any, steps: int) -> None:  # noqa: ARG002
        """Counts ``steps``."""
        self.advance(steps, ready[:0])

    def advance(self, steps: int, ended: Ids) -> None:  # noqa: ARG002
        """Counts ``steps``."""
        self._missing -= steps
        if self._exact and 0 < self._missing < len(self._all):
            self.ready = self._all[: self._missing]


class EpisodeLimit(Limit):
    """Ends a collect after a number of episodes, counted in the order in which they end.

    When an episode ends and fewer episodes are missing than environments are running, its environment is not stepped
    any more. Environments with short episodes contribute more of them, so the mean return is biased; see
    :class:`EpisodeQuotas`.

    :param n_episode: the number of episodes.
    :param env_num: the number of environments.
    """

    def __init__(self, n_episode: int, env_num: int) -> None:
        self._missing = n_episode
        self.ready = np.arange(min(n_episode, env_num))

    @property
    def whole_steps(self) -> tuple[str, Any] | None:
        """All steps."""
        return "episodes", self._missing

    def resume(self, ready: Ids, left: Any, steps: int) -> None:  # noqa: ARG002
        """Takes the number of missing episodes."""
        self.ready, self._missing = ready, left

    def advance(self, steps: int, ended: Ids) -> None:  # noqa: ARG002
        """Counts episodes, and stops environments among ``ended`` if more are running than episodes are missing."""
        self._missing -= len(ended)
        surplus = len(self.ready) - self._missing
        if surplus > 0:
            self.ready = np.setdiff1d(self.ready, ended[:surplus], assume_unique=True)


class EpisodeQuotas(Limit):
    """Ends a collect when each environment has played a fixed number of episodes.

    The length of an episode has no influence on how many episodes its environment plays, so the mean return is
    unbiased.

    :param n_episode: the number of episodes in all; the first environments play one more if it does not divide evenly.
    :param env_num: the number of environments.
    """

    def __init__(self, n_episode: int, env_num: int) -> None:
        share, rest = divmod(n_episode, env_num)
        self._quota = np.full(env_num, share)
        self._quota[:rest] += 1
        self.ready = np.flatnonzero(self._quota)

    @property
    def reached(self) -> bool:
        """Whether enough was collected."""
        return len(self.ready) == 0

    @property
    def whole_steps(self) -> tuple[str, Any] | None:
        """All steps."""
        return "quotas", self._quota

    def resume(self, ready: Ids, left: Any, steps: int) -> None:  # noqa: ARG002
        """Takes the remaining quotas."""
        self.ready, self._quota = ready, left

    def advance(self, steps: int, ended: Ids) -> None:  # noqa: ARG002
        """Counts episodes, and stops those environments among ``ended`` that have played all of theirs."""
        self._quota[ended] -= 1
        self.ready = self.ready[self._quota[self.ready] > 0]
