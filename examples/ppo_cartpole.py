"""PPO on CartPole-v1: an actor and a critic learn from roll-outs, each of which is used once. It takes about a minute.

python examples/ppo_cartpole.py
"""

import gymnasium as gym
import torch

from rlfast.data import Collector, VectorReplayBuffer
from rlfast.env import DummyVectorEnv
from rlfast.functional import Categorical
from rlfast.policy import PPOPolicy
from rlfast.trainer import OnpolicyTrainer
from rlfast.utils.net.common import ActorCritic, Net
from rlfast.utils.net.discrete import Actor, Critic


def train(steps: int = 100_000, seed: int = 0) -> float:
    """Return the best mean return of 20 test episodes; training stops at 475."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # quickest for networks this small
    train_envs = DummyVectorEnv([lambda: gym.make("CartPole-v1")] * 8)
    test_envs = DummyVectorEnv([lambda: gym.make("CartPole-v1")] * 20)
    train_envs.seed(seed)
    test_envs.seed(100 + seed)

    actor = Actor(Net(4, hidden_sizes=[64, 64]), 2, softmax_output=False)
    critic = Critic(Net(4, hidden_sizes=[64, 64]))
    policy = PPOPolicy(
        actor=actor,
        critic=critic,
        optim=torch.optim.Adam(ActorCritic(actor, critic).parameters(), lr=3e-4),
        dist_fn=Categorical,
        action_space=gym.spaces.Discrete(2),
        action_scaling=False,
        deterministic_eval=True,
        max_grad_norm=0.5,
    )
    policy.seed(seed)

    trainer = OnpolicyTrainer(
        policy=policy,
        train_collector=Collector(policy, train_envs, VectorReplayBuffer(total_size=2_048, buffer_num=8)),
        test_collector=Collector(policy, test_envs),
        max_epoch=-(-steps // 4_096),
        step_per_epoch=min(steps, 4_096),
        step_per_collect=min(steps, 2_048),
        repeat_per_collect=10,
        episode_per_test=20,
        batch_size=64,
        stop_fn=lambda mean_return: mean_return >= 475,
    )
    return trainer.run().best_reward


if __name__ == "__main__":
    print(f"mean return: {train():.0f}")
