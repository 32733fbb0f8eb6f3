"""Hindsight experience replay."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv, VecNormalize
from stable_baselines3.her import her_replay_buffer as host
from stable_baselines3.her.goal_selection_strategy import KEY_TO_GOAL_STRATEGY, GoalSelectionStrategy

from rlfast.interop._columns import Index, Obs
from rlfast.interop.sb3.replay import DictReplayBuffer


class HerReplayBuffer(DictReplayBuffer, host.HerReplayBuffer):
    """Stable-Baselines3's hindsight buffer on the Rust engine; Andrychowicz et al. 2017, arXiv:1707.01495.

    Only rows of complete episodes are drawn. Of each ``n_sampled_goal + 1`` rows, ``n_sampled_goal`` get a goal that
    their episode achieved. The list of rows that can be drawn is recomputed only after an episode has ended or was
    overwritten.

    :param buffer_size: as in :class:`DictReplayBuffer`; so are the other parameters that are not listed here.
    :param env: its ``compute_reward(achieved_goal, desired_goal, infos)`` computes the rewards for new goals.
    :param n_sampled_goal: the number of rows with a new goal for each row with its original goal.
    :param goal_selection_strategy: ``"future"`` (a goal achieved at the row or later in its episode), ``"final"`` or
        ``"episode"``.
    :param copy_info_dict: whether the ``info`` of each row is stored, and copies are given to ``compute_reward``.
    :raises KeyError: the strategy is unknown.
    """

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Dict,
        action_space: spaces.Space[Any],
        env: VecEnv,
        device: th.device | str = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
        n_sampled_goal: int = 4,
        goal_selection_strategy: GoalSelectionStrategy | str = "future",
        copy_info_dict: bool = False,
    ) -> None:
        DictReplayBuffer.__init__(
            self,
            buffer_size,
            observation_space,
            action_space,
            device=device,
            n_envs=n_envs,
            optimize_memory_usage=optimize_memory_usage,
            handle_timeout_termination=handle_timeout_termination,
        )
        if isinstance(goal_selection_strategy, str):
            goal_selection_strategy = KEY_TO_GOAL_STRATEGY[goal_selection_strategy.lower()]
        if not isinstance(goal_selection_strategy, GoalSelectionStrategy):
            raise AssertionError(
                f"goal_selection_strategy must be one of {list(GoalSelectionStrategy)}, got {goal_selection_strategy!r}"
            )
        self.env, self.copy_info_dict = env, copy_info_dict
        self.goal_selection_strategy, self.n_sampled_goal = goal_selection_strategy, n_sampled_goal
        self.her_ratio = 1 - 1.0 / (n_sampled_goal + 1)
        shape = (self.buffer_size, self.n_envs)
        nothing = np.array({}, object)
        self.infos = np.full(shape, nothing) if copy_info_dict else np.broadcast_to(nothing, shape)
        self._forget_episodes()

    def _forget_episodes(self) -> None:
        shape = (self.buffer_size, self.n_envs)
        self.ep_start = np.zeros(shape, np.int64)
        self.ep_length = np.zeros(shape, np.int64)
        self._current_ep_start = np.zeros(self.n_envs, np.int64)

    @property
    def ep_length(self) -> NDArray[np.int64]:
        """The length of each row's episode, ``[buffer_size, n_envs]``; 0 if it is running or partly overwritten."""
        self._valid: Index | None = None  # the caller may change the array
        return self._ep_length

    @ep_length.setter
    def ep_length(self, value: NDArray[np.int64]) -> None:
        self._valid = None
        self._ep_length = value

    def reset(self) -> None:
        """Deletes all transitions and their episodes."""
        super().reset()
        self._forget_episodes()

    # -- writing -----------------------------------------------------------------------------------------------------
    def add(
        self,
        obs: Obs,
        next_obs: Obs,
        action: NDArray[Any],
        reward: NDArray[Any],
        done: NDArray[Any],
        infos: list[dict[str, Any]],
    ) -> None:
        """Adds one transition of each environment; see :meth:`ReplayBuffer.add`."""
        pos = self.pos
        super().add(obs, next_obs, action, reward, done, infos)
        self._drop_overwritten(pos)
        self.ep_start[pos] = self._current_ep_start
        if self.copy_info_dict:
            self.infos[pos] = infos
        for env_idx in np.flatnonzero(done):
            self._compute_episode_length(int(env_idx))

    def _drop_overwritten(self, pos: int) -> None:
        """Excludes episodes whose row at ``pos`` was overwritten from the draws."""
        for env_idx in np.flatnonzero(self._ep_length[pos]):
            end = self.ep_start[pos, env_idx] + self._ep_length[pos, env_idx]
            self.ep_length[np.arange(pos, end) % self.buffer_size, env_idx] = 0

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_valid": None}

    # -- reading -----------------------------------------------------------------------------------------------------
    def sample(self, batch_size: int, env: VecNormalize | None = None) -> Any:
        """Draws rows of complete episodes uniformly: first those with their original goals, then those with new ones.

        :param batch_size: how many.
        :param env: normalizes observations and rewards, which are stored without normalization; None for no
            normalization.
        :return: ``DictReplayBufferSamples``.
        :raises RuntimeError: no episode has ended yet.
        """
        own = type(self)
        if (own._get_real_samples, own._get_virtual_samples) != _PARTS:  # a subclass replaced one
            return host.HerReplayBuffer.sample(self, batch_size, env)
        if self._valid is None:
            self._valid = np.flatnonzero(self._ep_length > 0)
        if not len(self._valid):
            raise RuntimeError(
                "Unable to sample before the end of the first episode: choose learning_starts greater than the maximum "
                "number of timesteps of an episode."
            )
        drawn = self._valid[np.random.randint(0, len(self._valid), size=batch_size)]
        virtual = int(self.her_ratio * batch_size)
        steps, envs = np.divmod(np.concatenate((drawn[virtual:], drawn[:virtual])), self.n_envs)
        return self._with_goals(steps, envs, batch_size - virtual, env)

    def _get_real_samples(
        self, batch_indices: NDArray[Any], env_indices: NDArray[Any], env: VecNormalize | None = None
    ) -> Any:
        return self._with_goals(batch_indices, env_indices, len(batch_indices), env)

    def _get_virtual_samples(
        self, batch_indices: NDArray[Any], env_indices: NDArray[Any], env: VecNormalize | None = None
    ) -> Any:
        return self._with_goals(batch_indices, env_indices, 0, env)

    def _with_goals(self, steps: Index, envs: Index, real: int, env: VecNormalize | None) -> Any:
        """Returns the samples; from the ``real``-th row on, they have new goals and rewards."""
        fields = self._columns.take(self._columns.rows(steps, envs))
        obs, next_obs, rewards = fields["obs"], fields["obs_next"], fields["rewards"]
        if real < len(steps):
            goals = self._sample_goals(steps[real:], envs[real:])
            for part in (obs, next_obs):  # new arrays, because obs and next_obs of images share their memory
                part["desired_goal"] = np.concatenate((part["desired_goal"][:real], goals))
            rewards[real:, 0] = self._rewards_for(next_obs["achieved_goal"][real:], goals, steps[real:], envs[real:])
        rewards = self._normalize_reward(rewards, env)
        return self._tensors(obs, fields["actions"], next_obs, fields["dones"], rewards, env)

    def _sample_goals(self, batch_indices: Index, env_indices: Index) -> NDArray[Any]:
        start, length = self.ep_start[batch_indices, env_indices], self._ep_length[batch_indices, env_indices]
        if self.goal_selection_strategy is GoalSelectionStrategy.FINAL:
            chosen = length - 1
        elif self.goal_selection_strategy is GoalSelectionStrategy.FUTURE:
            chosen = np.random.randint((batch_indices - start) % self.buffer_size, length)
        else:
            chosen = np.random.randint(0, length)
        rows = self._columns.rows((chosen + start) % self.buffer_size, env_indices)
        goals: NDArray[Any] = self._columns.take(rows, ("obs_next",))["obs_next"]["achieved_goal"]
        return goals

    def _rewards_for(
        self, achieved: NDArray[Any], desired: NDArray[Any], steps: Index, envs: Index
    ) -> NDArray[np.float32]:
        """Computes the rewards of achieved goals with respect to desired goals, by the environment."""
        if self.env is None:
            raise AssertionError("rewards of new goals come from an environment: call set_env() before sampling")
        infos: Any = [{} for _ in steps]
        if self.copy_info_dict:
            infos = copy.deepcopy(self.infos[steps, envs])
        (rewards,) = self.env.env_method("compute_reward", achieved, desired, infos, indices=[0])
        return np.asarray(rewards, np.float32).reshape(len(steps))


_PARTS = (HerReplayBuffer._get_real_samples, HerReplayBuffer._get_virtual_samples)
