"""Two agents in one environment: a reward for each of them."""

import json

import gymnasium as gym
import numpy as np
from tianshou.data import Batch, Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.policy import BasePolicy


class Pair(gym.Env):
    observation_space = gym.spaces.Box(0, 10, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.t = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.t += 1
        return np.full(2, self.t, np.float32), np.array([1.0, -self.t]), self.t == 3, False, {}


class Still(BasePolicy):
    def forward(self, batch, state=None, **kwargs):
        return Batch(act=np.zeros(len(batch.obs), int))

    def learn(self, batch, *args, **kwargs):
        return {}


collector = Collector(Still(action_space=Pair.action_space), DummyVectorEnv([Pair] * 2), VectorReplayBuffer(20, 2))
collector.reset()
stats = collector.collect(n_episode=4)
rows = collector.buffer.sample(0)[0]
print(json.dumps({"returns": stats.returns.tolist(), "shape": rows.rew.shape, "rew": rows.rew.tolist(), "lens": stats.lens.tolist()}))
