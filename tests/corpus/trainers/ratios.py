"""How many gradient steps there are for several ratios of updates to steps."""

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


out = {}
for ratio, per_collect in ((1, 4), (0.25, 8), (2.0, 3), (0.1, 10)):
    policy, train, test = collectors()
    result = OffpolicyTrainer(
        policy=policy,
        train_collector=train,
        test_collector=test,
        max_epoch=1,
        step_per_epoch=80,
        step_per_collect=per_collect,
        episode_per_test=2,
        batch_size=4,
        update_per_step=ratio,
        verbose=False,
        show_progress=False,
    ).run()
    out[f"{ratio} {per_collect}"] = [len(policy.updates), result.gradient_step, result.train_step]
print(json.dumps(out))
