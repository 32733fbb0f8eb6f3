"""A trainer of the user: its policy_update_fn updates twice and counts."""

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


class Twice(OffpolicyTrainer):
    counted = 0

    def policy_update_fn(self, collect_stats):
        self.counted += 1
        stats = None
        for _ in range(2):
            stats = self._sample_and_update(self.train_collector.buffer)
        return stats


policy, train, test = collectors()
trainer = Twice(
    policy=policy,
    train_collector=train,
    test_collector=test,
    max_epoch=1,
    step_per_epoch=12,
    step_per_collect=4,
    episode_per_test=2,
    batch_size=4,
    verbose=False,
    show_progress=False,
)
result = trainer.run()
print(json.dumps({"counted": trainer.counted, "updates": policy.updates, "gradient": result.gradient_step}))
