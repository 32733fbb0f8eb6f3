"""Posterior sampling on a chain of states, whose reward is at its far end. It takes some seconds.

python examples/psrl_chain.py
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from rlfast.data import Collector, VectorReplayBuffer
from rlfast.env import DummyVectorEnv
from rlfast.policy import PSRLPolicy
from rlfast.trainer import OnpolicyTrainer

STATES, ACTIONS = 5, 2


class Chain(gym.Env[int, int]):
    """The chain of Strens (2000): 1,000 steps, where an action is swapped for the other with probability 0.2.

    Action 0 leads one state on, and at the last state stays there for a reward of 10. Action 1 leads back to the first
    state for a reward of 2.
    """

    observation_space = gym.spaces.Discrete(STATES)
    action_space = gym.spaces.Discrete(ACTIONS)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.state = self.steps = 0
        return self.state, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        back = bool(action) != (self.np_random.random() < 0.2)
        reward = 2.0 if back else 10.0 * (self.state == STATES - 1)
        self.state = 0 if back else min(self.state + 1, STATES - 1)
        self.steps += 1
        return self.state, reward, False, self.steps == 1000, {}


def train(steps: int = 5_000, seed: int = 0) -> float:
    """Return the mean return of 10 test episodes; that of going on in every state is about 3,650."""
    policy = PSRLPolicy(
        trans_count_prior=np.ones((STATES, ACTIONS, STATES)),
        rew_mean_prior=np.zeros((STATES, ACTIONS)),
        rew_std_prior=np.full((STATES, ACTIONS), 10.0),  # as large as rewards may be
        action_space=Chain.action_space,
    )
    policy.seed(seed)
    train_envs, test_envs = DummyVectorEnv([Chain]), DummyVectorEnv([Chain] * 10)
    train_envs.seed(seed)
    test_envs.seed(1000 + seed)
    test_collector = Collector(policy, test_envs)
    OnpolicyTrainer(
        policy=policy,
        train_collector=Collector(policy, train_envs, VectorReplayBuffer(total_size=100, buffer_num=1)),
        test_collector=None,
        max_epoch=1,
        step_per_epoch=steps,
        step_per_collect=100,  # a model is drawn for each 100 steps
        repeat_per_collect=1,
        episode_per_test=None,
        batch_size=None,
    ).run()
    return test_collector.collect(n_episode=10).returns_stat.mean


if __name__ == "__main__":
    print(f"mean return: {train():.0f}")
