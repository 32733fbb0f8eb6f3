"""DDPG with hindsight: moving a point to a goal, where rewards say only whether it is there. It takes some minutes.

python examples/her_reach.py
"""

from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.spaces import Box

from rlfast.data import Collector, HERVectorReplayBuffer, VectorReplayBuffer
from rlfast.env import DummyVectorEnv
from rlfast.experiment.networks import Encoded, Encoder
from rlfast.exploration import GaussianNoise
from rlfast.policy import DDPGPolicy
from rlfast.trainer import OffpolicyTrainer
from rlfast.utils.net.common import Net
from rlfast.utils.net.continuous import Actor, Critic
from rlfast.utils.optim import adam


def rewards(achieved: Any, desired: Any) -> Any:
    return -(np.linalg.norm(achieved - desired, axis=-1) > 0.15).astype(np.float64)


class Reach(gym.Env[Any, Any]):
    """A point in a cube of side 2, whose speed is the action, for 20 steps."""

    observation_space = gym.spaces.Dict(
        dict.fromkeys(("observation", "achieved_goal", "desired_goal"), Box(-1, 1, (3,)))
    )
    action_space = Box(-1, 1, (3,))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps, (self.place, self.goal) = 0, self.np_random.uniform(-1, 1, (2, 3)).astype(np.float32)
        return self.observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps, self.place = self.steps + 1, np.clip(self.place + 0.25 * action, -1, 1).astype(np.float32)
        return self.observe(), float(rewards(self.place, self.goal)), False, self.steps == 20, {}

    def observe(self) -> dict[str, Any]:
        return {"observation": self.place, "achieved_goal": self.place, "desired_goal": self.goal}


def train(steps: int = 8_000, seed: int = 0) -> float:
    """Return the mean return of 100 test episodes: minus the number of steps away from the goal, of 20."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # quickest for networks this small
    encoder = Encoder(Reach.observation_space)  # joins the three parts to 9 numbers
    policy = DDPGPolicy(
        actor=Encoded(encoder, Actor(Net(9, hidden_sizes=[64, 64]), 3)),
        actor_optim=adam(1e-3),
        critic=Encoded(encoder, Critic(Net(9, 3, hidden_sizes=[64, 64], concat=True))),
        critic_optim=adam(1e-3),
        action_space=Reach.action_space,
        gamma=0.95,
        tau=0.02,
        exploration_noise=GaussianNoise(sigma=0.2),
    )
    policy.seed(seed)
    train_envs, test_envs = DummyVectorEnv([Reach] * 8), DummyVectorEnv([Reach] * 20)
    train_envs.seed(seed)
    test_envs.seed(1000 + seed)
    buffer = HERVectorReplayBuffer(20_000, 8, compute_reward_fn=rewards, horizon=20, future_k=5, seed=seed)
    collector = Collector(policy, train_envs, buffer, exploration_noise=True)
    collector.collect(n_step=800, random=True)
    parts = {"policy": policy, "train_collector": collector, "test_collector": None}
    OffpolicyTrainer(
        **parts, max_epoch=1, batch_size=256, step_per_epoch=steps, step_per_collect=8, update_per_step=0.5
    ).run()
    policy.eval()
    return Collector(policy, test_envs, VectorReplayBuffer(2_000, 20)).collect(n_episode=100).returns_stat.mean


if __name__ == "__main__":
    print(f"mean return: {train():.1f}")
