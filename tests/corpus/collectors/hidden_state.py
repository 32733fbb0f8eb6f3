"""A policy with memory: the state goes from step to step and starts anew with each episode."""

import json

import gymnasium as gym
import numpy as np
from tianshou.data import Batch, Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.policy import BasePolicy


class Steps(gym.Env):
    observation_space = gym.spaces.Box(0, 10, (1,))
    action_space = gym.spaces.Discrete(2)

    def __init__(self, length):
        self.length = length

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        return np.full(1, self.t, np.float32), float(action), self.t == self.length, False, {}


class Counting(BasePolicy):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.seen = []

    def forward(self, batch, state=None, **kwargs):
        count = np.zeros((len(batch.obs), 2)) if state is None else state.count
        self.seen.append(count[:, 0].tolist())
        return Batch(act=(count[:, 0] % 2).astype(int), state=Batch(count=count + 1))

    def learn(self, batch, *args, **kwargs):
        return {}


envs = DummyVectorEnv([lambda: Steps(2), lambda: Steps(3)])
policy = Counting(action_space=Steps.action_space)
collector = Collector(policy, envs, VectorReplayBuffer(20, 2))
collector.reset()
collector.collect(n_step=8)
stored = collector.buffer.sample(0)[0]
print(json.dumps({"seen": policy.seen, "act": stored.act.tolist(), "rew": stored.rew.tolist(), "kept": "hidden_state" in stored.policy}))
