"""Hindsight relabelling: new goals for sampled rows, which are written to the batch and never to the store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlfast._core import Replay, carry
from rlfast.data.batch.batch import Batch
from rlfast.data.buffer.options.units import count_at_least
from rlfast.utils.arguments.checks import check_number

Index = NDArray[np.int64]
Take = Callable[[Index, list[str], int], dict[str, Any]]
"""A function that reads fields of rows. Its arguments are the rows, names of fields, and frames of a stack."""
_GOAL_KEYS = ("observation", "achieved_goal", "desired_goal")


@dataclass(frozen=True)
class Hindsight:
    """The *future* strategy of Andrychowicz et al. 2017, *Hindsight Experience Replay*, arXiv:1707.01495, section 4.5.

    Each drawn row is relabelled with probability ``1 - 1 / future_k``. Its desired goal becomes the achieved goal of a
    row of the same episode, drawn uniformly from the row itself and the stored rows less than ``horizon`` steps later.
    The index array records that row, so that n-step rewards and ``buffer[last].obs_next`` use the same goal.

    :param compute_reward_fn: ``(achieved_goal[N, ...], desired_goal[N, ...]) -> reward[N]``, called once for a batch.
    :param horizon: the largest length of an episode, at least 1.
    :param future_k: the ratio of relabelled to other rows plus one, at least 1.
    :raises ValueError: if ``horizon`` or ``future_k`` is out of range.
    :raises TypeError: if ``compute_reward_fn`` is not callable, or a number is not one.
    """

    compute_reward_fn: Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]
    horizon: int
    future_k: float = 8.0

    def __post_init__(self) -> None:
        if not callable(self.compute_reward_fn):
            raise TypeError(f"compute_reward_fn must be callable, got {self.compute_reward_fn!r}")
        count_at_least(self, "horizon", 1)
        if self.future_k != inf:  # infinity relabels every row
            check_number("future_k", self.future_k)
        if not self.future_k >= 1:
            raise ValueError(f"future_k must be at least 1, got {self.future_k}")

    def choose(self, core: Replay, rows: Index) -> Index:
        """Draws goals for rows.

        :param core: the engine that stores the rows.
        :param rows: rows, ``[B]``.
        :return: the same rows, which record a goal where one was drawn.
        """
        relabel, goal = core.hindsight(rows, self.future_k, self.horizon)
        return carry(rows, np.where(relabel, goal, -1))

    def apply(self, rows: Index, goals: Index | None, fields: dict[str, Any], take: Take) -> None:
        """Writes goals, and the rewards for them, to the arrays of a batch.

        :param rows: rows, of any shape.
        :param goals: the row of each one's goal, -1 where it keeps its own; None if all do.
        :param fields: the arrays, which are changed in place.
        :param take: the function that reads fields of other rows.
        :raises TypeError: if observations are not dicts with goals.
        :raises ValueError: if ``compute_reward_fn`` returns another number of rewards than rows.
        """
        chosen = None if goals is None else goals >= 0
        if goals is None or chosen is None or not chosen.any():
            return
        desired = self._goal_obs(take, goals[chosen]).achieved_goal
        for key in ("obs", "obs_next"):
            if key in fields:
                column = fields[key].desired_goal
                stacked = column.ndim - rows.ndim > desired.ndim - 1
                column[chosen] = desired[:, None] if stacked else desired
        if "rew" in fields:
            fields["rew"][chosen] = self._reward(take, rows[chosen], desired)

    def _reward(self, take: Take, rows: Index, desired: NDArray[Any]) -> NDArray[np.float64]:
        reward = np.asarray(self.compute_reward_fn(self._goal_obs(take, rows).achieved_goal, desired), np.float64)
        if reward.shape != rows.shape:
            raise ValueError(
                f"compute_reward_fn must return rewards of shape {rows.shape}, one for each goal, got {reward.shape}"
            )
        return reward

    @staticmethod
    def _goal_obs(take: Take, rows: Index) -> Batch:
        """Returns the newest frame of ``obs_next``, whose achieved goal is the result of each row's action."""
        obs = take(rows, ["obs_next"], 1).get("obs_next")
        if not isinstance(obs, Batch) or any(key not in obs for key in _GOAL_KEYS):
            raise TypeError(f"hindsight needs dict observations with the keys {', '.join(_GOAL_KEYS)}, got {obs!r}")
        return obs
