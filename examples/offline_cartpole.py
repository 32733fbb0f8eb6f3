"""Conservative Q-learning on CartPole-v1, from steps of a controller that often errs. It takes about a minute.

python examples/offline_cartpole.py
"""

import gymnasium as gym
import numpy as np
import torch

from rlfast.data import Batch, Collector, ReplayBuffer
from rlfast.env import DummyVectorEnv
from rlfast.policy import DiscreteCQLPolicy
from rlfast.trainer import OfflineTrainer
from rlfast.utils.net.common import Net
from rlfast.utils.optim import adam


def recorded(rows: int, seed: int) -> ReplayBuffer:
    """Return steps of a controller; a third of its actions are random."""
    rng = np.random.default_rng(seed)
    env, buffer = gym.make("CartPole-v1"), ReplayBuffer(rows, seed=seed)
    obs, info = env.reset(seed=seed)
    for _ in range(rows):
        act = int(rng.integers(2) if rng.random() < 1 / 3 else obs[2] + 0.5 * obs[3] > 0)
        obs_next, rew, terminated, truncated, info = env.step(act)
        row = {"obs": obs, "act": act, "rew": rew, "terminated": terminated, "truncated": truncated}
        buffer.add(Batch(row, obs_next=obs_next, info=info))
        obs = env.reset()[0] if terminated or truncated else obs_next
    return buffer


def train(steps: int = 10_000, seed: int = 0) -> float:
    """Return the best mean return of 20 test episodes after gradient steps; training stops at 475."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # quickest for networks this small
    test_envs = DummyVectorEnv([lambda: gym.make("CartPole-v1")] * 20)
    test_envs.seed(100 + seed)
    policy = DiscreteCQLPolicy(
        model=Net(state_shape=4, action_shape=2, hidden_sizes=[64, 64], num_atoms=20),
        optim=adam(1e-3),
        action_space=gym.spaces.Discrete(2),
        num_quantiles=20,
        estimation_step=3,
        target_update_freq=200,
        min_q_weight=1.0,
    )
    policy.seed(seed)
    trainer = OfflineTrainer(
        policy=policy,
        buffer=recorded(min(10 * steps, 20_000), seed),
        test_collector=Collector(policy, test_envs),
        max_epoch=-(-steps // 1_000),
        step_per_epoch=min(steps, 1_000),
        episode_per_test=20,
        batch_size=128,
        stop_fn=lambda mean_return: mean_return >= 475,
    )
    return trainer.run().best_reward


if __name__ == "__main__":
    print(f"mean return: {train():.0f}")
