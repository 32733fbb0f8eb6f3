"""Builds what a run of DQN needs from its configuration."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from rlfast.data import PrioritizedVectorReplayBuffer, VectorReplayBuffer
from rlfast.data.collect.collector import Collector
from rlfast.experiment.parts import Parts, make_envs, prepare_torch, stream_seed
from rlfast.policy import DQNPolicy
from rlfast.trainer import OffpolicyTrainer
from rlfast.utils.net.common import Net
from rlfast.utils.optim import adam

if TYPE_CHECKING:
    from rlfast.data import ReplayBuffer
    from rlfast.experiment.config import DQNConfig


def build(config: DQNConfig) -> Parts:
    """Makes environments, network, policy, buffer and collectors, each with a random stream of its own.

    :raises ValueError: the environment's actions are not discrete, its observations are no arrays, or there is no such
        device.
    :raises gymnasium.error.Error: there is no such environment.
    """
    prepare_torch(config)
    train_envs, test_envs = make_envs(config, "train"), make_envs(config, "test")
    obs_space, act_space = train_envs.observation_space[0], train_envs.action_space[0]
    if not isinstance(act_space, gym.spaces.Discrete):
        raise ValueError(f"DQN needs discrete actions, and those of {config.env} are {act_space}")
    if not isinstance(obs_space, gym.spaces.Box):
        raise ValueError(f"DQN needs array observations, and those of {config.env} are {obs_space}")
    policy = _policy(config, obs_space, act_space)
    return Parts(
        policy=policy,
        train_collector=Collector(policy, train_envs, _buffer(config), exploration_noise=True),
        test_collector=Collector(policy, test_envs),
        trainer=partial(
            OffpolicyTrainer,
            batch_size=config.batch_size,
            step_per_collect=config.collect_steps,
            update_per_step=config.updates_per_step,
            start_timesteps=config.start_steps,
        ),
        before_collect=lambda env_step: policy.set_eps(config.eps_at(env_step)),
    )


def _policy(config: DQNConfig, obs_space: gym.spaces.Box, act_space: gym.spaces.Discrete) -> DQNPolicy:
    stream: dict[str, Any] = {"hidden_sizes": config.hidden_sizes[-1:]}
    net = Net(
        obs_space.shape,
        int(act_space.n),
        hidden_sizes=config.hidden_sizes,
        device=config.device,
        dueling_param=(stream, stream) if config.dueling else None,
    )
    policy = DQNPolicy(
        model=net,
        optim=adam(config.learning_rate),
        action_space=act_space,
        observation_space=obs_space,
        discount_factor=config.gamma,
        estimation_step=config.n_step,
        target_update_freq=config.target_update_freq,
        is_double=config.double,
        clip_loss_grad=config.huber,
        compile=config.compile,
    )
    policy.seed(stream_seed(config.seed, "policy"))
    return policy


def _buffer(config: DQNConfig) -> ReplayBuffer:
    seed = stream_seed(config.seed, "sampler")
    if config.prioritized:
        return PrioritizedVectorReplayBuffer(
            config.buffer_size, config.num_envs, alpha=config.alpha, beta=config.beta, seed=seed
        )
    return VectorReplayBuffer(config.buffer_size, config.num_envs, seed=seed)
