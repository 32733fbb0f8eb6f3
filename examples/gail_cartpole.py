"""GAIL on CartPole-v1: PPO imitates 2,000 steps of a controller, and sees no reward. It takes about two minutes.

python examples/gail_cartpole.py
"""

import gymnasium as gym
import numpy as np
import torch

from rlfast.data import Batch, Collector, ReplayBuffer, VectorReplayBuffer
from rlfast.env import DummyVectorEnv
from rlfast.functional import Categorical
from rlfast.policy import GAILPolicy
from rlfast.trainer import OnpolicyTrainer
from rlfast.utils.net.common import ActorCritic, Net
from rlfast.utils.net.continuous import Critic as Discriminator
from rlfast.utils.net.discrete import Actor, Critic
from rlfast.utils.optim import adam


def demonstrations(steps: int) -> ReplayBuffer:
    """Return steps of a controller, which pushes the cart to the side to which the pole falls."""
    env, buffer = gym.make("CartPole-v1"), ReplayBuffer(steps)
    obs, info = env.reset(seed=0)
    for _ in range(steps):
        act = int(obs[2] + 0.5 * obs[3] + 0.05 * obs[0] + 0.1 * obs[1] > 0)
        obs_next, rew, terminated, truncated, info = env.step(act)
        row = {"obs": obs, "act": act, "rew": rew, "terminated": terminated, "truncated": truncated}
        buffer.add(Batch(row, obs_next=obs_next, info=info))
        obs = env.reset()[0] if terminated or truncated else obs_next
    return buffer


def train(steps: int = 80_000, seed: int = 0) -> float:
    """Return the best mean return of 20 test episodes; training stops at 475."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # quickest for networks this small
    np.random.seed(seed)
    train_envs, test_envs = (DummyVectorEnv([lambda: gym.make("CartPole-v1")] * n) for n in (8, 20))
    train_envs.seed(seed)
    test_envs.seed(100 + seed)
    actor = Actor(Net(4, hidden_sizes=[64, 64]), 2, softmax_output=False)
    critic = Critic(Net(4, hidden_sizes=[64, 64]))
    policy = GAILPolicy(
        actor=actor,
        critic=critic,
        optim=torch.optim.Adam(ActorCritic(actor, critic).parameters(), lr=1e-3),
        dist_fn=Categorical,
        action_space=gym.spaces.Discrete(2),
        action_scaling=False,
        deterministic_eval=True,
        expert_buffer=demonstrations(min(steps, 2_000)),
        disc_net=Discriminator(Net(4, 2, hidden_sizes=[64, 64], concat=True)),
        disc_optim=adam(1e-3),
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
