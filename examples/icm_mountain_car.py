"""DQN with curiosity on a MountainCar whose only reward is at its goal. It takes about a minute.

python examples/icm_mountain_car.py
"""

from typing import Any

import gymnasium as gym
import numpy as np
import torch

from rlfast.data import Collector, VectorReplayBuffer
from rlfast.env import DummyVectorEnv
from rlfast.policy import DQNPolicy, ICMPolicy
from rlfast.trainer import OffpolicyTrainer
from rlfast.utils.net.common import MLP, Net
from rlfast.utils.net.discrete import IntrinsicCuriosityModule
from rlfast.utils.optim import adam


class SparseCar(gym.Wrapper[Any, int, Any, int]):
    """MountainCar-v0 with a reward of 1 at the goal and of 0 elsewhere, and observations from -1 to 1."""

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        obs, info = self.env.reset(**options)
        return self.scaled(obs), info

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        obs, _, terminated, truncated, info = self.env.step(action)
        return self.scaled(obs), float(terminated), terminated, truncated, info

    def scaled(self, obs: Any) -> Any:
        return ((obs - np.array([-0.3, 0.0])) / np.array([0.9, 0.07])).astype(np.float32)


def train(steps: int = 24_000, seed: int = 0, curiosity: float = 100.0) -> float:
    """Return the best share of 20 test episodes that reach the goal; training stops at 0.9."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # quickest for networks this small
    np.random.seed(seed)
    train_envs, test_envs = (DummyVectorEnv([lambda: SparseCar(gym.make("MountainCar-v0"))] * n) for n in (8, 10))
    train_envs.seed(seed)
    test_envs.seed(100 + seed)
    space = gym.spaces.Discrete(3)
    net = Net(state_shape=2, action_shape=3, hidden_sizes=[64, 64])
    options = {"action_space": space, "estimation_step": 3, "target_update_freq": 200, "clip_loss_grad": True}
    policy: Any = DQNPolicy(model=net, optim=adam(1e-3), **options)
    if curiosity:
        model = IntrinsicCuriosityModule(MLP(2, 32, [64]), feature_dim=32, action_dim=3, hidden_sizes=[64])
        policy = ICMPolicy(
            policy=policy,
            model=model,
            optim=torch.optim.Adam(model.parameters(), lr=1e-3),
            action_space=space,
            lr_scale=1.0,
            reward_scale=curiosity,
            forward_loss_weight=0.2,
        )
    policy.seed(seed)
    buffer = VectorReplayBuffer(total_size=50_000, buffer_num=8, seed=seed)
    trainer = OffpolicyTrainer(
        policy=policy,
        train_collector=Collector(policy, train_envs, buffer, exploration_noise=True),
        test_collector=Collector(policy, test_envs),
        max_epoch=-(-steps // 4_000),
        step_per_epoch=min(steps, 4_000),
        step_per_collect=16,
        update_per_step=1 / 8,
        episode_per_test=20,
        batch_size=64,
        train_fn=lambda _epoch, env_step: policy.set_eps(max(0.05, 1.0 - env_step / 10_000)),
        stop_fn=lambda mean_return: mean_return >= 0.9,
    )
    return trainer.run().best_reward


if __name__ == "__main__":
    print(f"episodes that reach the goal: {train():.0%} with curiosity, {train(curiosity=0.0):.0%} without")
