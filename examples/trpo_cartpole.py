"""TRPO on CartPole-v1: natural gradients whose steps change the policy by a given divergence. It takes about a minute.

python examples/trpo_cartpole.py
"""

import gymnasium as gym
import torch

from rlfast.data import Collector, VectorReplayBuffer
from rlfast.env import DummyVectorEnv
from rlfast.functional import Categorical
from rlfast.policy import TRPOPolicy
from rlfast.trainer import OnpolicyTrainer
from rlfast.utils.net.common import Net
from rlfast.utils.net.discrete import Actor, Critic


def train(steps: int = 100_000, seed: int = 0) -> float:
    """Return the best mean return of 20 test episodes; training stops at 475."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # quickest for networks this small
    train_envs = DummyVectorEnv([lambda: gym.make("CartPole-v1")] * 8)
    test_envs = DummyVectorEnv([lambda: gym.make("CartPole-v1")] * 20)
    train_envs.seed(seed)
    test_envs.seed(100 + seed)

    actor = Actor(Net(4, hidden_sizes=[64, 64], activation=torch.nn.Tanh), 2, softmax_output=False)
    critic = Critic(Net(4, hidden_sizes=[64, 64], activation=torch.nn.Tanh))
    policy = TRPOPolicy(
        actor=actor,
        critic=critic,
        optim=torch.optim.Adam(critic.parameters(), lr=1e-3),  # the actor takes natural gradients
        dist_fn=Categorical,
        action_space=gym.spaces.Discrete(2),
        action_scaling=False,
        deterministic_eval=True,
        optim_critic_iters=10,
        max_kl=0.02,
    )
    policy.seed(seed)

    trainer = OnpolicyTrainer(
        policy=policy,
        train_collector=Collector(policy, train_envs, VectorReplayBuffer(total_size=2_048, buffer_num=8)),
        test_collector=Collector(policy, test_envs),
        max_epoch=-(-steps // 4_096),
        step_per_epoch=min(steps, 4_096),
        step_per_collect=min(steps, 2_048),
        repeat_per_collect=1,
        episode_per_test=20,
        batch_size=None,
        stop_fn=lambda mean_return: mean_return >= 475,
    )
    return trainer.run().best_reward


if __name__ == "__main__":
    print(f"mean return: {train():.0f}")
