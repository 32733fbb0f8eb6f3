"""DQN on CartPole-v1, piece by piece: what `rlfast train dqn` does, with nothing hidden. It takes about a minute.

python examples/dqn_cartpole.py
"""

import gymnasium as gym
import torch

from rlfast.data import Collector, VectorReplayBuffer
from rlfast.env import DummyVectorEnv
from rlfast.policy import DQNPolicy
from rlfast.trainer import OffpolicyTrainer
from rlfast.utils.net.common import Net


def train(steps: int = 100_000, seed: int = 0) -> float:
    """Return the best mean return of 20 test episodes; training stops at 475."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # quickest for a network this small
    train_envs = DummyVectorEnv([lambda: gym.make("CartPole-v1")] * 8)
    test_envs = DummyVectorEnv([lambda: gym.make("CartPole-v1")] * 20)
    train_envs.seed(seed)
    test_envs.seed(100 + seed)

    net = Net(state_shape=4, action_shape=2, hidden_sizes=[128, 128])
    policy = DQNPolicy(
        model=net,
        optim=torch.optim.Adam(net.parameters(), lr=3e-3, fused=True),
        action_space=gym.spaces.Discrete(2),
        discount_factor=0.99,
        estimation_step=3,
        target_update_freq=25,
        clip_loss_grad=True,
    )
    policy.seed(seed)

    buffer = VectorReplayBuffer(total_size=50_000, buffer_num=8, seed=seed)
    train_collector = Collector(policy, train_envs, buffer, exploration_noise=True)
    test_collector = Collector(policy, test_envs)
    train_collector.collect(n_step=min(2 * steps, 1_000), random=True)

    def explore_less(_epoch: int, env_step: int) -> None:
        policy.set_eps(max(0.05, 1.0 - env_step / 10_000))

    trainer = OffpolicyTrainer(
        policy=policy,
        max_epoch=-(-steps // 2_000),
        batch_size=256,
        train_collector=train_collector,
        test_collector=test_collector,
        step_per_epoch=2_000,
        step_per_collect=64,
        episode_per_test=20,
        update_per_step=1 / 8,
        train_fn=explore_less,
        stop_fn=lambda mean_return: mean_return >= 475,
    )
    return trainer.run().best_reward


if __name__ == "__main__":
    print(f"mean return: {train():.0f}")
