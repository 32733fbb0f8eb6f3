"""QRDQN on CartPole-v1: a network learns quantiles of returns instead of their mean. It takes some minutes.

python examples/qrdqn_cartpole.py
"""

import gymnasium as gym
import torch

from rlfast.data import Collector, VectorReplayBuffer
from rlfast.env import DummyVectorEnv
from rlfast.policy import QRDQNPolicy
from rlfast.trainer import OffpolicyTrainer
from rlfast.utils.net.common import Net
from rlfast.utils.optim import adam

QUANTILES = 50


def train(steps: int = 100_000, seed: int = 0) -> float:
    """Return the best mean return of 20 test episodes; training stops at 475."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # quickest for a network this small
    train_envs = DummyVectorEnv([lambda: gym.make("CartPole-v1")] * 8)
    test_envs = DummyVectorEnv([lambda: gym.make("CartPole-v1")] * 20)
    train_envs.seed(seed)
    test_envs.seed(100 + seed)

    policy = QRDQNPolicy(
        model=Net(state_shape=4, action_shape=2, hidden_sizes=[128, 128], num_atoms=QUANTILES),
        optim=adam(1e-3),
        action_space=gym.spaces.Discrete(2),
        discount_factor=0.99,
        num_quantiles=QUANTILES,
        estimation_step=3,
        target_update_freq=100,
    )
    policy.seed(seed)

    buffer = VectorReplayBuffer(total_size=50_000, buffer_num=8, seed=seed)
    train_collector = Collector(policy, train_envs, buffer, exploration_noise=True)
    train_collector.collect(n_step=1_000, random=True)

    def explore_less(_epoch: int, env_step: int) -> None:
        policy.set_eps(max(0.05, 1.0 - env_step / 10_000))

    trainer = OffpolicyTrainer(
        policy=policy,
        train_collector=train_collector,
        test_collector=Collector(policy, test_envs),
        max_epoch=-(-steps // 2_000),
        step_per_epoch=min(steps, 2_000),
        step_per_collect=64,
        update_per_step=1 / 8,
        episode_per_test=20,
        batch_size=128,
        train_fn=explore_less,
        stop_fn=lambda mean_return: mean_return >= 475,
    )
    return trainer.run().best_reward


if __name__ == "__main__":
    print(f"mean return: {train():.0f}")
