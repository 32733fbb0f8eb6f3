"""Builds what a run of SAC needs from its configuration."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

from gymnasium.spaces import Box

from rlfast.data import VectorReplayBuffer
from rlfast.data.collect.collector import Collector
from rlfast.experiment.parts import Parts, make_envs, prepare_torch, stream_seed
from rlfast.policy import AutoAlpha, FixedAlpha, SACPolicy
from rlfast.trainer import OffpolicyTrainer
from rlfast.utils.net.common import Net
from rlfast.utils.net.continuous import ActorProb, Critic
from rlfast.utils.optim import adam

if TYPE_CHECKING:
    import gymnasium as gym

    from rlfast.experiment.config_sac import SACConfig


def build(config: SACConfig) -> Parts:
    """Makes environments, networks, policy, buffer and collectors, each with a random stream of its own.

    :raises ValueError: the environment's actions are not continuous, its observations are no arrays, or there is no
        such device.
    :raises gymnasium.error.Error: there is no such environment.
    """
    prepare_torch(config)
    train_envs, test_envs = make_envs(config, "train"), make_envs(config, "test")
    policy = _policy(config, train_envs.observation_space[0], train_envs.action_space[0])
    buffer = VectorReplayBuffer(config.buffer_size, config.num_envs, seed=stream_seed(config.seed, "sampler"))
    return Parts(
        policy=policy,
        train_collector=Collector(policy, train_envs, buffer, exploration_noise=True),
        test_collector=Collector(policy, test_envs),
        trainer=partial(
            OffpolicyTrainer,
            batch_size=config.batch_size,
            step_per_collect=config.collect_steps,
            update_per_step=config.updates_per_step,
            start_timesteps=config.start_steps,
        ),
    )


def _policy(config: SACConfig, obs_space: gym.Space[Any], act_space: gym.Space[Any]) -> SACPolicy:
    if not isinstance(act_space, Box):
        raise ValueError(f"SAC needs continuous actions, and those of {config.env} are {act_space}")
    if not isinstance(obs_space, Box):
        raise ValueError(f"SAC needs array observations, and those of {config.env} are {obs_space}")
    net = partial(Net, obs_space.shape, hidden_sizes=config.hidden_sizes, device=config.device)
    critics = [Critic(net(action_shape=act_space.shape, concat=True), device=config.device) for _ in range(2)]
    actor = ActorProb(net(), act_space.shape, unbounded=True, conditioned_sigma=True, device=config.device)
    optim = adam(config.learning_rate)
    policy = SACPolicy(
        actor=actor,
        actor_optim=optim,
        critic=critics[0],
        critic_optim=optim,
        critic2=critics[1],
        critic2_optim=optim,
        action_space=act_space,
        observation_space=obs_space,
        tau=config.tau,
        gamma=config.gamma,
        alpha=_alpha(config, math.prod(act_space.shape)),
        estimation_step=config.n_step,
        compile=config.compile,
    )
    policy.seed(stream_seed(config.seed, "policy"))
    return policy.to(config.device)


def _alpha(config: SACConfig, action_dim: int) -> AutoAlpha | FixedAlpha:
    if not config.auto_alpha:
        return FixedAlpha(config.alpha)
    target = -float(action_dim) if config.target_entropy is None else config.target_entropy
    return AutoAlpha(target, math.log(config.alpha), adam(config.alpha_learning_rate))
