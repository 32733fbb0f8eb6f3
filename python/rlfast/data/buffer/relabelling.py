"""Hindsight relabelling: other goals for sampled rows, written into the batch and never into the store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlfast._core import Replay, carried, carry
from rlfast.data.batch.batch import Batch
from rlfast.data.buffer.units import count_at_least
from rlfast.utils.checks import check_number

Index = NDArray[np.int64]
Take = Callable[[Index, list[str], int], dict[str, Any]]
"""Reads fields of rows: the rows, names of fields, and frames in a stack."""
_GOAL_KEYS = ("observation", "achieved_goal", "desired_goal")


@dataclass(frozen=True)
class Hindsight:
    """The *future* strategy of Andrychowicz et al. 2017, *Hindsight Experience Replay*, arXiv:1707.01495, section 4.5.

    Each drawn row is relabelled with probability ``1 - 1 / future_k``: its goal becomes what was achieved at a row of
    the same episode, uniform over itself and those after it that are stored, less than ``horizon`` steps later. Which
    row that is travels with the index array, so that n-step rewards and ``buffer[last].obs_next`` use the same goal.

    :param compute_reward_fn: ``(achieved_goal[N, ...], desired_goal[N, ...]) -> reward[N]``; called once per batch.
    :param horizon: the longest an episode can be, >= 1.
    :param future_k: relabelled rows for each untouched one, plus one; >= 1.
    :raises ValueError: horizon or future_k out of range.
    """

    compute_reward_fn: Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]
    horizon: int
    future_k: float = 8.0

    def __post_init__(self) -> None:
        if not callable(self.compute_reward_fn):
            raise TypeError(f"compute_reward_fn must be callable, got {self.compute_reward_fn!r}")
        count_at_least(self, "horizon", 1)
        if self.future_k != inf:  # with which every row is relabelled
            check_number("future_k", self.future_k)
        if not self.future_k >= 1:
            raise ValueError(f"future_k must be at least 1, got {self.future_k}")

    def choose(self, core: Replay, rows: Index) -> Index:
        """Draws goals for rows.

        :param core: the engine that has the rows.
        :param rows: ``[B]``.
        :return: the same rows, remembering a goal where one was drawn.
        """
        relabel, goal = core.hindsight(rows, self.future_k, self.horizon)
        return carry(rows, np.where(relabel, goal, -1))

    def apply(self, rows: Index, fields: dict[str, Any], take: Take) -> None:
        """Writes the goals that ``rows`` remember, and their rewards, into the arrays of a batch.

        :param rows: of any shape.
        :param fields: the arrays; changed in place.
        :param take: reads further rows.
        :raises TypeError: observations that are no dicts with goals.
        :raises ValueError: ``compute_reward_fn`` gives another number of rewards than rows.
        """
        goals = carried(rows)
        if goals is None:
            return
        chosen = goals >= 0
        if not chosen.any():
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
        """The newest frame of ``obs_next``: what was achieved by the action of each row."""
        obs = take(rows, ["obs_next"], 1).get("obs_next")
        if not isinstance(obs, Batch) or any(key not in obs for key in _GOAL_KEYS):
            raise TypeError(f"hindsight needs dict observations with the keys {', '.join(_GOAL_KEYS)}, got {obs!r}")
        return obs
