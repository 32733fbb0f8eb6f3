"""Builds what a run of PPO needs from its configuration."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from torch import nn

from rlfast.data import VectorReplayBuffer
from rlfast.data.collect.collector import Collector
from rlfast.experiment.parts import Parts, make_envs, prepare_torch, stream_seed
from rlfast.functional.distributions import Categorical, DiagonalNormal, MultiCategorical
from rlfast.policy import PPOPolicy
from rlfast.trainer import OnpolicyTrainer
from rlfast.utils.net.common import Net
from rlfast.utils.net.continuous import ActorProb
from rlfast.utils.net.discrete import Actor, Critic
from rlfast.utils.optim import adam

if TYPE_CHECKING:
    import gymnasium as gym

    from rlfast.experiment.config_ppo import PPOConfig
    from rlfast.policy.modelfree.ppo import TDistFn


def build(config: PPOConfig) -> Parts:
    """Makes environments, networks, policy, buffer and collectors, each with a random stream of its own.

    :raises ValueError: the environment's actions are of no kind that PPO knows, its observations are no arrays, or
        there is no such device.
    :raises gymnasium.error.Error: there is no such environment.
    """
    prepare_torch(config)
    train_envs, test_envs = make_envs(config, "train"), make_envs(config, "test")
    policy = _policy(config, train_envs.observation_space[0], train_envs.action_space[0])
    buffer = VectorReplayBuffer(config.collect_steps, config.num_envs)
    return Parts(
        policy=policy,
        train_collector=Collector(policy, train_envs, buffer),
        test_collector=Collector(policy, test_envs),
        trainer=partial(
            OnpolicyTrainer,
            batch_size=config.batch_size,
            step_per_collect=config.collect_steps,
            repeat_per_collect=config.repeat,
        ),
    )


def _policy(config: PPOConfig, obs_space: gym.Space[Any], act_space: gym.Space[Any]) -> PPOPolicy:
    if not isinstance(obs_space, Box):
        raise ValueError(f"PPO needs array observations, and those of {config.env} are {obs_space}")
    net = partial(Net, obs_space.shape, hidden_sizes=config.hidden_sizes, activation=nn.Tanh, device=config.device)
    critic = Critic(net(), device=config.device)
    actor, dist_fn = _actor(config, net(), act_space)
    _initialize(actor, critic)
    policy = PPOPolicy(
        actor=actor,
        critic=critic,
        optim=adam(config.learning_rate, eps=1e-5),
        dist_fn=dist_fn,
        action_space=act_space,
        observation_space=obs_space,
        action_scaling=isinstance(act_space, Box),
        eps_clip=config.eps_clip,
        dual_clip=config.dual_clip,
        value_clip=config.value_clip,
        advantage_normalization=config.normalize_advantage,
        recompute_advantage=config.recompute_advantage,
        reward_normalization=config.scale_returns,
        vf_coef=config.vf_coef,
        ent_coef=config.ent_coef,
        max_grad_norm=config.max_grad_norm,
        gae_lambda=config.gae_lambda,
        discount_factor=config.gamma,
        deterministic_eval=True,
        compile=config.compile,
    )
    policy.seed(stream_seed(config.seed, "policy"))
    return policy


def _actor(config: PPOConfig, net: Net, act_space: gym.Space[Any]) -> tuple[Actor | ActorProb, TDistFn]:
    if isinstance(act_space, Discrete):
        return Actor(net, int(act_space.n), softmax_output=False, device=config.device), Categorical
    if isinstance(act_space, MultiDiscrete) and act_space.nvec.ndim == 1:
        actor = Actor(net, int(act_space.nvec.sum()), softmax_output=False, device=config.device)
        return actor, partial(MultiCategorical, nvec=act_space.nvec.tolist())
    if isinstance(act_space, Box) and len(act_space.shape) == 1:
        normal = ActorProb(net, act_space.shape, unbounded=True, device=config.device)
        nn.init.constant_(normal.sigma_param, config.log_std)
        return normal, DiagonalNormal
    raise ValueError(
        f"PPO needs discrete, multi-discrete or continuous actions along one axis, and those of {config.env} are "
        f"{act_space}"
    )


def _initialize(actor: Actor | ActorProb, critic: Critic) -> None:
    """Orthogonal weights, and a policy that starts nearly the same everywhere (arXiv:2006.05990, section 3.2)."""
    for layer in [*actor.modules(), *critic.modules()]:
        if isinstance(layer, nn.Linear):
            nn.init.orthogonal_(layer.weight, math.sqrt(2))
            nn.init.zeros_(layer.bias)
    head = actor.mu if isinstance(actor, ActorProb) else actor.last
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.mul_(0.01)
