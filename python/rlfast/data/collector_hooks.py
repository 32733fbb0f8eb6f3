"""Hooks: functions that a collector calls after steps and episodes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from rlfast.data.types import BatchProtocol, RolloutBatchProtocol


class CollectActionBatchProtocol(BatchProtocol, Protocol):
    """The actions of one step, a row for each environment that was stepped."""

    act: Any
    """The actions as the policy returned them and as they are stored."""
    act_normalized: Any
    """The actions as they were sent to the environments."""
    policy_entry: Any
    """The fields that are stored under ``policy``."""
    dist: Any
    """The policy's action distribution; None if it has none, or if the environments did not return together."""
    hidden_state: Any
    """The policy's hidden state before the step; None if it has none."""


class CollectStepBatchProtocol(RolloutBatchProtocol, Protocol):
    """The transitions of one step, with the policy's action distribution."""

    dist: Any


class EpisodeBatchProtocol(RolloutBatchProtocol, Protocol):
    """Those transitions of one episode that the buffer still has."""


class StepHookProtocol(Protocol):
    """A function that is called after every step of the environments, before its transitions are stored."""

    def __call__(self, action_batch: CollectActionBatchProtocol, rollout_batch: CollectStepBatchProtocol) -> None:
        """Called with one step of the environments.

        :param action_batch: the actions; see :class:`CollectActionBatchProtocol`.
        :param rollout_batch: the transitions, with ``done`` and ``dist``; changes to its fields are stored.
        """


class StepHook(StepHookProtocol, ABC):
    """The base class of step hooks. A plain function can be a step hook too."""

    @abstractmethod
    def __call__(self, action_batch: CollectActionBatchProtocol, rollout_batch: CollectStepBatchProtocol) -> None:
        """See :class:`StepHookProtocol`."""


class StepHookAddActionDistribution(StepHook):
    """Adds the policy's action distribution to the transitions, as the field ``action_dist``.

    Statistics can read that field. It is not stored in the buffer.
    """

    ACTION_DIST_KEY: ClassVar[str] = "action_dist"

    def __call__(self, action_batch: CollectActionBatchProtocol, rollout_batch: CollectStepBatchProtocol) -> None:
        """See :class:`StepHookProtocol`."""
        rollout_batch[self.ACTION_DIST_KEY] = action_batch.dist


class EpisodeRolloutHookProtocol(Protocol):
    """A function that is called when an episode has ended."""

    def __call__(self, episode_batch: EpisodeBatchProtocol) -> dict[str, NDArray[Any]] | None:
        """Called with one episode.

        :param episode_batch: the transitions of the episode.
        :return: fields to add to these rows in the buffer, each an array with one value for each row; None for none.
        """


class EpisodeRolloutHook(EpisodeRolloutHookProtocol, ABC):
    """The base class of episode hooks. A plain function can be an episode hook too."""

    @abstractmethod
    def __call__(self, episode_batch: EpisodeBatchProtocol) -> dict[str, NDArray[Any]] | None:
        """See :class:`EpisodeRolloutHookProtocol`."""


class EpisodeRolloutHookMCReturn(EpisodeRolloutHook):
    """Adds two fields to each row: the discounted return from there on, and that of the whole episode.

    :param gamma: the discount factor, in [0, 1].
    :raises ValueError: ``gamma`` is outside [0, 1].

    >>> from rlfast.data import Batch
    >>> EpisodeRolloutHookMCReturn(gamma=0.5)(Batch(rew=[1.0, 0.0, 4.0]))["mc_return_to_go"].tolist()
    [2.0, 2.0, 4.0]
    """

    MC_RETURN_TO_GO_KEY: ClassVar[str] = "mc_return_to_go"
    FULL_EPISODE_MC_RETURN_KEY: ClassVar[str] = "full_episode_mc_return"

    def __init__(self, gamma: float = 0.99) -> None:
        if not 0 <= gamma <= 1:
            raise ValueError(f"gamma must be in [0, 1], got {gamma}")
        self.gamma = gamma

    def __call__(self, episode_batch: EpisodeBatchProtocol) -> dict[str, NDArray[Any]]:
        """See :class:`EpisodeRolloutHookProtocol`."""
        to_go = np.array(episode_batch.rew, dtype=np.float64)
        for row in range(len(to_go) - 2, -1, -1):
            to_go[row] += self.gamma * to_go[row + 1]
        whole = np.broadcast_to(to_go[:1], to_go.shape).copy()
        return {self.MC_RETURN_TO_GO_KEY: to_go, self.FULL_EPISODE_MC_RETURN_KEY: whole}


class EpisodeRolloutHookMerged(EpisodeRolloutHook):
    """Combines several episode hooks into one.

    :param episode_rollout_hooks: the hooks, which are called in this order.
    :param check_overlapping_keys: whether two hooks that add the same field are an error; else the later one wins.
    """

    def __init__(self, *episode_rollout_hooks: EpisodeRolloutHookProtocol, check_overlapping_keys: bool = True) -> None:
        self.episode_rollout_hooks = episode_rollout_hooks
        self.check_overlapping_keys = check_overlapping_keys

    def __call__(self, episode_batch: EpisodeBatchProtocol) -> dict[str, NDArray[Any]] | None:
        """See :class:`EpisodeRolloutHookProtocol`.

        :raises KeyError: two hooks add the same field.
        """
        merged: dict[str, NDArray[Any]] = {}
        for hook in self.episode_rollout_hooks:
            added = hook(episode_batch) or {}
            if self.check_overlapping_keys and (twice := sorted(added.keys() & merged.keys())):
                raise KeyError(f"{hook!r} adds {', '.join(twice)}, as a hook before it does: give the fields own names")
            merged |= added
        return merged or None
