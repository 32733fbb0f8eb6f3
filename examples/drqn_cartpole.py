"""Recurrent Q-learning on CartPole-v1 without velocities, which a memory must infer. It takes some minutes.

python examples/drqn_cartpole.py
"""

import gymnasium as gym
import numpy as np
import torch
from gymnasium.wrappers import TransformObservation

from rlfast.data import Collector, VectorReplayBuffer
from rlfast.env import DummyVectorEnv
from rlfast.policy import DQNPolicy
from rlfast.trainer import OffpolicyTrainer
from rlfast.utils.net.common import Recurrent
from rlfast.utils.optim import adam


def make_env() -> gym.Env[np.ndarray, int]:
    seen = gym.spaces.Box(-np.inf, np.inf, (2,))
    return TransformObservation(gym.make("CartPole-v1"), lambda obs: obs[[0, 2]], seen)  # positions


def train(steps: int = 60_000, seed: int = 0) -> float:
    """Return the best mean return of 20 test episodes; training stops at 400."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # quickest for a network this small
    train_envs, test_envs = DummyVectorEnv([make_env] * 8), DummyVectorEnv([make_env] * 20)
    train_envs.seed(seed)
    test_envs.seed(100 + seed)

    policy = DQNPolicy(
        model=Recurrent(layer_num=1, state_shape=2, action_shape=2, hidden_layer_size=64),
        optim=adam(1e-3),
        action_space=gym.spaces.Discrete(2),
        discount_factor=0.99,
        estimation_step=3,
        target_update_freq=100,
        clip_loss_grad=True,
    )
    policy.seed(seed)

    buffer = VectorReplayBuffer(total_size=50_000, buffer_num=8, stack_num=8, seed=seed)  # 8 steps to learn from
    train_collector = Collector(policy, train_envs, buffer, exploration_noise=True)
    train_collector.collect(n_step=1_000)  # by the policy, so that the buffer has its hidden states

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
        stop_fn=lambda mean_return: mean_return >= 400,
    )
    return trainer.run().best_reward


if __name__ == "__main__":
    print(f"mean return: {train():.0f}")
