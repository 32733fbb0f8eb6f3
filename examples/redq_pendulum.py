"""REDQ on Pendulum-v1: an ensemble of ten critics as one network, and three updates a step. It takes some minutes.

python examples/redq_pendulum.py
"""

import gymnasium as gym
import torch

from rlfast.data import Collector, VectorReplayBuffer
from rlfast.env import DummyVectorEnv
from rlfast.policy import REDQPolicy
from rlfast.trainer import OffpolicyTrainer
from rlfast.utils.net.common import EnsembleLinear, Net
from rlfast.utils.net.continuous import ActorProb, Critic
from rlfast.utils.optim import adam

CRITICS = 10


def train(steps: int = 6_000, seed: int = 0) -> float:
    """Return the best mean return of 20 test episodes; training stops at -200."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # quickest for networks this small
    train_envs = DummyVectorEnv([lambda: gym.make("Pendulum-v1")])
    test_envs = DummyVectorEnv([lambda: gym.make("Pendulum-v1")] * 20)
    train_envs.seed(seed)
    test_envs.seed(100 + seed)

    def layer(inputs: int, outputs: int) -> EnsembleLinear:
        return EnsembleLinear(CRITICS, inputs, outputs)

    critics = Net(3, 1, hidden_sizes=[64, 64], concat=True, linear_layer=layer)
    policy = REDQPolicy(
        actor=ActorProb(Net(3, hidden_sizes=[64, 64]), 1, unbounded=True, conditioned_sigma=True),
        actor_optim=adam(1e-3),
        critic=Critic(critics, linear_layer=layer, flatten_input=False),
        critic_optim=adam(1e-3),
        action_space=gym.make("Pendulum-v1").action_space,
        ensemble_size=CRITICS,
        subset_size=2,
        actor_delay=3,
        gamma=0.98,
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
        update_per_step=3,
        episode_per_test=20,
        batch_size=256,
        stop_fn=lambda mean_return: mean_return >= -200,
    )
    return trainer.run().best_reward


if __name__ == "__main__":
    print(f"mean return: {train():.0f}")
