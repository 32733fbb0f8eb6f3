"""SAC on Pendulum-v1: an actor that is paid for entropy, at a temperature that is learned. It takes about a minute.

python examples/sac_pendulum.py
"""

import gymnasium as gym
import torch

from rlfast.data import Collector, VectorReplayBuffer
from rlfast.env import DummyVectorEnv
from rlfast.policy import AutoAlpha, SACPolicy
from rlfast.trainer import OffpolicyTrainer
from rlfast.utils.net.common import Net
from rlfast.utils.net.continuous import ActorProb, Critic
from rlfast.utils.optim import adam


def train(steps: int = 15_000, seed: int = 0) -> float:
    """Return the best mean return of 20 test episodes; training stops at -200."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # quickest for networks this small
    train_envs = DummyVectorEnv([lambda: gym.make("Pendulum-v1")])
    test_envs = DummyVectorEnv([lambda: gym.make("Pendulum-v1")] * 20)
    train_envs.seed(seed)
    test_envs.seed(100 + seed)

    def make_critic() -> Critic:
        return Critic(Net(3, 1, hidden_sizes=[128, 128], concat=True))

    policy = SACPolicy(
        actor=ActorProb(Net(3, hidden_sizes=[128, 128]), 1, unbounded=True, conditioned_sigma=True),
        actor_optim=adam(1e-3),
        critic=make_critic(),
        critic_optim=adam(1e-3),
        critic2=make_critic(),
        critic2_optim=adam(1e-3),
        action_space=gym.make("Pendulum-v1").action_space,
        gamma=0.98,
        alpha=AutoAlpha(-1.0, 0.0, adam(1e-3)),  # target entropy, first logarithm, optimizer
    )
    policy.seed(seed)

    buffer = VectorReplayBuffer(total_size=50_000, buffer_num=1, seed=seed)
    train_collector = Collector(policy, train_envs, buffer, exploration_noise=True)
    train_collector.collect(n_step=min(steps, 1_000), random=True)
    trainer = OffpolicyTrainer(
        policy=policy,
        train_collector=train_collector,
        test_collector=Collector(policy, test_envs),
        max_epoch=-(-steps // 1_000),
        step_per_epoch=min(steps, 1_000),
        step_per_collect=1,
        update_per_step=1,
        episode_per_test=20,
        batch_size=256,
        stop_fn=lambda mean_return: mean_return >= -200,
    )
    return trainer.run().best_reward


if __name__ == "__main__":
    print(f"mean return: {train():.0f}")
