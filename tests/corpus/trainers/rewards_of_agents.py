"""Rewards of two agents, which reward_metric turns into one number."""

import json

import gymnasium as gym
import numpy as np
from tianshou.data import Batch, Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.policy import BasePolicy
from tianshou.policy.base import TrainingStats
from tianshou.trainer import OffpolicyTrainer


class Ladder(gym.Env):
    observation_space = gym.spaces.Box(0, 10, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, length=5):
        self.length = length

    def reset(self, seed=None, options=None):
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        return np.full(1, self.t, np.float32), 1.0, self.t == self.length, False, {}


class Still(BasePolicy):
    """Takes action 0, and counts its updates."""

    def __init__(self):
        super().__init__(action_space=gym.spaces.Discrete(2))
        self.updates = []

    def forward(self, batch, state=None, **kwargs):
        return Batch(act=np.zeros(len(batch.obs), int))

    def learn(self, batch, *args, **kwargs):
        self.updates.append(len(batch))
        return TrainingStats()


def collectors(size=200, lengths=(5, 5)):
    policy = Still()
    envs = [DummyVectorEnv([lambda n=n: Ladder(n) for n in lengths]) for _ in range(2)]
    train = Collector(policy, envs[0], VectorReplayBuffer(size, len(lengths)), exploration_noise=True)
    test = Collector(policy, envs[1])
    train.reset()
    test.reset()
    return policy, train, test


class Pair(Ladder):
    def step(self, action):
        obs, rew, terminated, truncated, info = super().step(action)
        return obs, np.array([rew, -2.0]), terminated, truncated, info


policy = Still()
train = Collector(policy, DummyVectorEnv([Pair] * 2), VectorReplayBuffer(100, 2))
test = Collector(policy, DummyVectorEnv([Pair] * 2))
train.reset()
test.reset()
result = OffpolicyTrainer(
    policy=policy,
    train_collector=train,
    test_collector=test,
    max_epoch=1,
    step_per_epoch=10,
    step_per_collect=10,
    episode_per_test=2,
    batch_size=4,
    update_per_step=0.1,
    reward_metric=lambda rewards: rewards[:, 1],
    verbose=False,
    show_progress=False,
).run()
print(json.dumps({"best": result.best_reward, "shape": list(train.buffer.rew.shape)}))
