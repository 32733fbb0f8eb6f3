"""Collects whole episodes: how many, from which environments, and what the statistics say."""

import json

import gymnasium as gym
import numpy as np
from tianshou.data import Batch, Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.policy import BasePolicy


class Countdown(gym.Env):
    observation_space = gym.spaces.Box(-1, 100, (2,), np.float64)
    action_space = gym.spaces.Discrete(3)

    def __init__(self, length):
        self.length = length

    def reset(self, **kwargs):
        self.left = self.length
        return np.array([self.left, self.length], np.float64), {}

    def step(self, action):
        self.left -= 1
        return np.array([self.left, self.length], np.float64), 1.0, False, self.left == 0, {}


class Zero(BasePolicy):
    def forward(self, batch, state=None, **kwargs):
        return Batch(act=np.zeros(len(batch.obs), int), state=state)

    def learn(self, batch, *args, **kwargs):
        return None


envs = DummyVectorEnv([lambda n=n: Countdown(n) for n in (1, 5)])
collector = Collector(Zero(action_space=Countdown.action_space), envs, VectorReplayBuffer(100, 2))
collector.reset()
out = {}
for episodes in (1, 2, 4):
    collector.reset()
    stats = collector.collect(n_episode=episodes)
    out[f"{episodes}"] = {
        "episodes": stats.n_collected_episodes,
        "steps": stats.n_collected_steps,
        "lens": sorted(stats.lens.tolist()),
        "mean": stats.returns_stat.mean,
        "max": stats.lens_stat.max,
        "rows": len(collector.buffer),
        "counters": [collector.collect_step, collector.collect_episode],
    }
print(json.dumps(out))
