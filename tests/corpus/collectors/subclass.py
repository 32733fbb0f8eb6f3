"""A user's collector: it overrides collect and reset_env, and adds a shaped reward after the call."""

import json

import gymnasium as gym
import numpy as np
from tianshou.data import Batch, Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.policy import BasePolicy


class Ladder(gym.Env):
    observation_space = gym.spaces.Box(0, 10, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        return np.full(1, self.t, np.float32), 1.0, self.t == 4, False, {}


class Up(BasePolicy):
    def forward(self, batch, state=None, **kwargs):
        return Batch(act=np.ones(len(batch.obs), int))

    def learn(self, batch, *args, **kwargs):
        return {}


class Counted(Collector):
    def __init__(self, *args, **kwargs):
        self.calls = []
        super().__init__(*args, **kwargs)

    def collect(self, n_step=None, n_episode=None, **kwargs):
        self.calls.append([n_step, n_episode])
        stats = super().collect(n_step=n_step, n_episode=n_episode, **kwargs)
        stats.n_collected_steps += 1000
        return stats

    def reset_stat(self):
        super().reset_stat()
        self.tag = "reset"


collector = Counted(Up(action_space=Ladder.action_space), DummyVectorEnv([Ladder] * 2), VectorReplayBuffer(20, 2))
collector.reset()
first = collector.collect(n_step=6)
second = collector.collect(n_episode=2)
print(json.dumps({"steps": [first.n_collected_steps, second.n_collected_steps], "calls": collector.calls, "tag": collector.tag, "counters": [collector.collect_step, collector.collect_episode]}))
