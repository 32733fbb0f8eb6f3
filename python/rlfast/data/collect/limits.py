"""When a collect is done, which environments are stepped until then, and what was counted."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rlfast.data.stats import CollectStats

Ids = NDArray[np.int64]

PATIENCE = 50_000
"""Vector steps without the end of an episode after which a limit of episodes warns."""


class Limit(ABC):
    """Decides after every vector step whether the collect is done and which environments are stepped next.

    :param ready: the environments to step next, ascending.
    :param left: the steps or episodes that are still to be collected.
    """

    kind: ClassVar[str]
    """The name of such limits for :func:`rlfast._core.collect`."""
    discards = True
    """Whether all environments are reset after the collect, because some were left within an episode."""

    def __init__(self, ready: Ids, left: Any) -> None:
        self.ready, self._left = ready, left

    @property
    def reached(self) -> bool:
        """Whether enough was collected."""
        return bool(self._left <= 0)

    @property
    def whole_steps(self) -> tuple[str, Any] | None:
        """The limit as :func:`rlfast._core.collect` takes it; None for no vector step there."""
        return self.kind, self._left

    def resume(self, ready: Ids, left: Any, steps: int) -> None:  # noqa: ARG002 (for limits of steps)
        """Record what a call of :func:`rlfast._core.collect` has left.

        :param ready: as :attr:`ready`.
        :param left: what is left of :attr:`whole_steps`.
        :param steps: how many steps of environments were taken.
        """
        self.ready, self._left = ready, left

    @abstractmethod
    def advance(self, steps: int, ended: Ids) -> None:
        """Count a vector step.

        :param steps: the number of environments that were stepped.
        :param ended: the environments whose episode ended in this step.
        """


class StepLimit(Limit):
    """Ends a collect after a number of environment steps, rounded up to whole vector steps.

    :param n_step: the number of steps.
    :param all_ids: the indices of all environments, ascending. They are not copied, to keep short collects quick.
    :param exact: whether the last vector step takes only as many environments as are needed.
    """

    kind = "steps"
    discards = False

    def __init__(self, n_step: int, all_ids: Ids, *, exact: bool = False) -> None:
        super().__init__(all_ids[:n_step] if exact else all_ids, n_step)
        self._all, self._exact = all_ids, exact

    @property
    def whole_steps(self) -> tuple[str, Any] | None:
        """All vector steps of all environments but the last, whose transitions the next actions may need."""
        steps = (self._left if self._exact else self._left + len(self._all) - 1) // len(self._all) - 1
        return (self.kind, steps) if steps > 0 else None

    def resume(self, ready: Ids, left: Any, steps: int) -> None:  # noqa: ARG002
        """Count ``steps``."""
        self.advance(steps, ready[:0])

    def advance(self, steps: int, ended: Ids) -> None:  # noqa: ARG002
        """Count ``steps``."""
        self._left -= steps
        if self._exact and 0 < self._left < len(self._all):
            self.ready = self._all[: self._left]


class _Episodes(Limit):
    """A limit of episodes, which warns if none ends."""

    def __init__(self, ready: Ids, left: Any) -> None:
        super().__init__(ready, left)
        self._waited: float = 0  # vector steps since an episode ended; minus infinity after the warning

    def resume(self, ready: Ids, left: Any, steps: int) -> None:
        """Record what is left, and wait for the next end."""
        some_ended = bool(np.any(left != self._left))
        self._wait(steps // max(1, len(ready)), some_ended=some_ended)
        super().resume(ready, left, steps)

    def _wait(self, steps: float, *, some_ended: bool) -> None:
        self._waited = min(self._waited, 0) if some_ended else self._waited + steps
        if self._waited >= PATIENCE:
            self._waited = -math.inf
            warnings.warn(
                f"no episode has ended in {PATIENCE:,} steps of each environment, and the collect waits for one. If "
                "the environment has no time limit, a policy may never end it: gymnasium.make(..., "
                "max_episode_steps=N) gives it one; for runs, --env-kwargs max_episode_steps=N",
                stacklevel=2,
            )


class EpisodeLimit(_Episodes):
    """Ends a collect after a number of episodes, counted in the order in which they end.

    When an episode ends and fewer episodes are missing than environments are running, its environment is not stepped
    any more. Environments with short episodes contribute more of them, so the mean return is biased; see
    :class:`EpisodeQuotas`.

    :param n_episode: the number of episodes.
    :param env_num: the number of environments.
    """

    kind = "episodes"

    def __init__(self, n_episode: int, env_num: int) -> None:
        super().__init__(np.arange(min(n_episode, env_num)), n_episode)

    def advance(self, steps: int, ended: Ids) -> None:  # noqa: ARG002
        """Count episodes, and stop environments among ``ended`` if more are running than episodes are missing."""
        self._wait(1, some_ended=len(ended) > 0)
        self._left -= len(ended)
        surplus = len(self.ready) - self._left
        if surplus > 0:
            self.ready = np.setdiff1d(self.ready, ended[:surplus], assume_unique=True)


class EpisodeQuotas(_Episodes):
    """Ends a collect when each environment has played a fixed number of episodes.

    The length of an episode has no influence on how many episodes its environment plays, so the mean return is
    unbiased.

    :param n_episode: the number of episodes in all; the first environments play one more if it does not divide evenly.
    :param env_num: the number of environments.
    """

    kind = "quotas"

    def __init__(self, n_episode: int, env_num: int) -> None:
        quotas = np.full(env_num, n_episode // env_num)
        quotas[: n_episode % env_num] += 1
        super().__init__(np.flatnonzero(quotas), quotas)

    @property
    def reached(self) -> bool:
        """Whether enough was collected."""
        return len(self.ready) == 0

    def advance(self, steps: int, ended: Ids) -> None:  # noqa: ARG002
        """Count episodes, and stop those environments among ``ended`` that have played all of theirs."""
        self._wait(1, some_ended=len(ended) > 0)
        self._left[ended] -= 1
        self.ready = self.ready[self._left[self.ready] > 0]


@dataclass(slots=True)
class Tally:
    """The counters and results of one collect so far."""

    steps: int = 0
    broken: int = 0
    """Episodes that were cut off because their environment failed and was rebuilt."""
    returns: list[NDArray[np.floating]] = field(default_factory=list)
    """One array for each step in which episodes ended: their returns."""
    lens: list[NDArray[np.int64]] = field(default_factory=list)
    """One array for each step in which episodes ended: their lengths."""
    custom_stats: CollectStats | None = None
    """Statistics of a user's class, updated after each step and each episode; None for the default class."""
    whole_episodes: bool = False
    """Whether only whole episodes are collected, so that an episode hook can add values to all of their rows."""

    @property
    def episodes(self) -> int:
        """The number of episodes that ended."""
        return sum(map(len, self.lens))

    def stats(self, seconds: float) -> CollectStats:
        """Make the statistics of the collect.

        :param seconds: how long the collect took.
        :return: an instance of :class:`~rlfast.data.CollectStats`, or of the user's class.
        """
        custom = self.custom_stats
        if custom is not None:
            custom.n_broken_episodes = self.broken
            if len(custom.lens) == self.episodes > 0:  # it counted only the rows that the buffer still has
                custom.lens = np.concatenate(self.lens)
            custom.set_collect_time(seconds, update_collect_speed=True)
            custom.refresh_all_sequence_stats()
            return custom
        return CollectStats.with_autogenerated_stats(
            returns=np.concatenate(self.returns) if self.returns else np.array([]),
            lens=np.concatenate(self.lens) if self.lens else np.array([], dtype=np.int64),
            n_collected_episodes=self.episodes,
            n_collected_steps=self.steps,
            n_broken_episodes=self.broken,
            collect_time=seconds,
            collect_speed=self.steps / seconds,
        )
