"""When a collect is done, and which environments still take part in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ids = NDArray[np.int64]


class Limit(Protocol):
    """Says after every vector step which environments go on."""

    ready: Ids
    """Environments to step next, ascending."""
    discards: bool
    """Whether all environments start afresh afterwards, because some were left within an episode or at its end."""

    @property
    def reached(self) -> bool:
        """Whether enough was collected."""

    def advance(self, steps: int, ended: Ids) -> None:
        """Counts ``steps``, one for each environment that answered, after which the episodes of ``ended`` were over."""


class StepLimit:
    """A number of steps, rounded up to whole vector steps; if ``exact``, the last takes the first environments only.

    :param everyone: the environments, ascending; not copied, for a collect may be of one step.
    """

    discards = False

    def __init__(self, n_step: int, everyone: Ids, *, exact: bool = False) -> None:
        self._left = n_step
        self._all = everyone
        self._exact = exact
        self.ready = self._all[:n_step] if exact else self._all

    @property
    def reached(self) -> bool:
        """Whether enough was collected."""
        return self._left <= 0

    def advance(self, steps: int, ended: Ids) -> None:  # noqa: ARG002
        """Counts ``steps``."""
        self._left -= steps
        if self._exact and 0 < self._left < len(self._all):
            self.ready = self._all[: self._left]


class EpisodeLimit:
    """A number of episodes, as they end: an environment leaves when the others are enough to finish what is missing.

    Every environment contributes, but those with short episodes contribute more of them: right for learning, but the
    mean return is biased (see :class:`EpisodeQuotas`).
    """

    discards = True

    def __init__(self, n_episode: int, env_num: int) -> None:
        self._left = n_episode
        self.ready = np.arange(min(n_episode, env_num))

    @property
    def reached(self) -> bool:
        """Whether enough was collected."""
        return self._left <= 0

    def advance(self, steps: int, ended: Ids) -> None:  # noqa: ARG002
        """Retires as many of the ``ended`` as there are more environments than missing episodes."""
        self._left -= len(ended)
        surplus = len(self.ready) - self._left
        if surplus > 0:
            self.ready = np.setdiff1d(self.ready, ended[:surplus], assume_unique=True)


class EpisodeQuotas:
    """A number of episodes, shared out beforehand: the first environments get one more where it does not divide evenly.

    How long an episode takes has no influence on how many there are of its kind, so their mean is unbiased.
    """

    discards = True

    def __init__(self, n_episode: int, env_num: int) -> None:
        share, rest = divmod(n_episode, env_num)
        self._quota = np.full(env_num, share)
        self._quota[:rest] += 1
        self.ready = np.flatnonzero(self._quota)

    @property
    def reached(self) -> bool:
        """Whether enough was collected."""
        return len(self.ready) == 0

    def advance(self, steps: int, ended: Ids) -> None:  # noqa: ARG002
        """Retires those of the ``ended`` that have filled their quota."""
        self._quota[ended] -= 1
        self.ready = self.ready[self._quota[self.ready] > 0]
