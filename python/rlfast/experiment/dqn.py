"""Builds what a run of DQN needs from its configuration."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
import torch

from rlfast.data import PrioritizedVectorReplayBuffer, VectorReplayBuffer
from rlfast.data.collector import Collector
from rlfast.env import DummyVectorEnv
from rlfast.policy import DQNPolicy
from rlfast.utils.net.common import Net
from rlfast.utils.optim import adam

if TYPE_CHECKING:
    from rlfast.data import ReplayBuffer
    from rlfast.experiment.config import DQNConfig


@dataclass(frozen=True, kw_only=True)
class DQNParts:
    """A policy, and what lets it act."""

    policy: DQNPolicy
    train_collector: Collector
    test_collector: Collector

    def close(self) -> None:
        """Closes the environments."""
        self.train_collector.close()
        self.test_collector.close()


def build_dqn(config: DQNConfig) -> DQNParts:
    """Makes environments, network, policy, buffer and collectors, each with a random stream of its own.

    :raises ValueError: the environment's actions are not discrete, its observations are no arrays, or there is no such
        device.
    :raises gymnasium.error.Error: there is no such environment.
    """
    _check_device(config.device)
    torch.set_num_threads(config.threads)
    torch.manual_seed(stream_seed(config.seed, "torch"))
    train_envs, test_envs = _envs(config, "train", config.num_envs), _envs(config, "test", config.eval_envs)
    obs_space, act_space = train_envs.observation_space[0], train_envs.action_space[0]
    if not isinstance(act_space, gym.spaces.Discrete):
        raise ValueError(f"DQN needs discrete actions, and those of {config.env} are {act_space}")
    if not isinstance(obs_space, gym.spaces.Box):
        raise ValueError(f"DQN needs array observations, and those of {config.env} are {obs_space}")
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
    )
    policy.seed(stream_seed(config.seed, "policy"))
    return DQNParts(
        policy=policy,
        train_collector=Collector(policy, train_envs, _buffer(config), exploration_noise=True),
        test_collector=Collector(policy, test_envs),
    )


def _check_device(device: str) -> None:
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:  # the latter from a torch that was built without CUDA
        raise ValueError(f"--device {device} cannot be used here: {str(error).splitlines()[0]}") from error


def stream_seed(seed: int, name: str) -> int:
    """The seed of the random stream ``name`` of a run.

    >>> stream_seed(0, "sampler") == stream_seed(0, "sampler"), stream_seed(0, "sampler") == stream_seed(0, "policy")
    (True, False)
    """
    return int(np.random.SeedSequence([seed, zlib.crc32(name.encode())]).generate_state(1)[0])


def _envs(config: DQNConfig, name: str, number: int) -> DummyVectorEnv:
    envs = DummyVectorEnv([lambda: gym.make(config.env)] * number)
    envs.seed([stream_seed(config.seed, f"env/{name}/{i}") for i in range(number)])
    return envs


def _buffer(config: DQNConfig) -> ReplayBuffer:
    seed = stream_seed(config.seed, "sampler")
    if config.prioritized:
        return PrioritizedVectorReplayBuffer(
            config.buffer_size, config.num_envs, alpha=config.alpha, beta=config.beta, seed=seed
        )
    return VectorReplayBuffer(config.buffer_size, config.num_envs, seed=seed)
