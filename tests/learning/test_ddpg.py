import sys

import gymnasium as gym
import pytest
import torch

from rlfast.data import Collector, VectorReplayBuffer
from rlfast.env import DummyVectorEnv
from rlfast.policy import DDPGPolicy
from rlfast.trainer import OffpolicyTrainer
from rlfast.utils.net.common import Net
from rlfast.utils.net.continuous import Actor, Critic
from rlfast.utils.optim import adam


@pytest.mark.learning
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(3))
def test_it_solves_pendulum(seed):
    torch.manual_seed(seed)
    train_envs, test_envs = (DummyVectorEnv([lambda: gym.make("Pendulum-v1")] * number) for number in (1, 20))
    train_envs.seed(seed)
    test_envs.seed(1000 + seed)
    space = train_envs.action_space[0]
    policy = DDPGPolicy(
        actor=Actor(Net(3, hidden_sizes=[128, 128]), space.shape),
        actor_optim=adam(1e-3),
        critic=Critic(Net(3, space.shape, hidden_sizes=[128, 128], concat=True)),
        critic_optim=adam(1e-3),
        action_space=space,
    )
    policy.seed(seed)
    buffer = VectorReplayBuffer(20_000, 1, seed=seed)
    trainer = OffpolicyTrainer(
        policy=policy,
        max_epoch=20,
        batch_size=128,
        train_collector=Collector(policy, train_envs, buffer, exploration_noise=True),
        test_collector=Collector(policy, test_envs),
        step_per_epoch=1_000,
        step_per_collect=1,
        update_per_step=1.0,
        episode_per_test=20,
        stop_fn=lambda mean_return: mean_return >= -200,
        start_timesteps=1_000,
        verbose=False,
        show_progress=False,
    )
    info = trainer.run()
    sys.stdout.write(f"{info}\n")
    assert info.best_reward >= -200
