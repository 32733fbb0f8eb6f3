"""Normalization of observations and rewards in runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium as gym

from rlfast.env import VectorEnvNormObs, VectorEnvNormReward

if TYPE_CHECKING:
    from rlfast.env import BaseVectorEnv
    from rlfast.experiment.config import RunConfig


def normalized(
    config: RunConfig, train_envs: BaseVectorEnv, test_envs: BaseVectorEnv
) -> tuple[BaseVectorEnv, BaseVectorEnv]:
    """Returns the environments of a run with the wrappers that its settings ask for.

    Test environments share the statistics of observations with the training environments and do not change them. Their
    rewards stay as they are.

    :param config: the settings of the run.
    :param train_envs: the training environments.
    :param test_envs: the test environments.
    :raises ValueError: if observations that are no ``Box`` should be normalized.
    """
    if config.normalize_obs:
        train_envs = normalizing_obs(config, train_envs)
        test_envs = VectorEnvNormObs(test_envs, update_obs_rms=False)
        test_envs.set_obs_rms(train_envs.get_obs_rms())
    if config.normalize_reward:
        train_envs = VectorEnvNormReward(train_envs, config.gamma)
    return train_envs, test_envs


def normalizing_obs(config: RunConfig, envs: BaseVectorEnv, *, statistics: Any = None) -> VectorEnvNormObs:
    """Returns environments with normalized observations.

    :param config: the settings of the run, for the error.
    :param envs: the environments.
    :param statistics: what :meth:`VectorEnvNormObs.state_dict` returned, which stay as they are; None for statistics
        that begin empty and change with each observation.
    :raises ValueError: if observations are no ``Box``.
    """
    space: Any = envs.single_observation_space
    if not isinstance(space, gym.spaces.Box):
        raise ValueError(f"--normalize-obs scales observations of a Box, and those of {config.env} are {space}")
    wrapped = VectorEnvNormObs(envs, update_obs_rms=statistics is None)
    if statistics is not None:
        wrapped.load_state_dict(statistics)
    return wrapped
