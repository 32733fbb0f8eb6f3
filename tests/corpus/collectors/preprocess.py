"""The preprocess_fn of version 1.0.0: it sees resets and steps, and what it gives is stored."""

import json

import gymnasium as gym
import numpy as np
from tianshou.data import Batch, Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.policy import BasePolicy


class Level(gym.Env):
    observation_space = gym.spaces.Box(0, 10, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        return np.full(1, self.t, np.float32), 1.0, self.t == 3, False, {}


class Still(BasePolicy):
    def forward(self, batch, state=None, **kwargs):
        return Batch(act=np.zeros(len(batch.obs), int))

    def learn(self, batch, *args, **kwargs):
        return {}


keys = []


def preprocess(**kwargs):
    keys.append(sorted(key for key, value in kwargs.items() if value is not None))
    if "rew" in kwargs:
        return Batch(rew=kwargs["rew"] * 10, info=kwargs["info"])
    return Batch(obs=kwargs["obs"] + 100)


collector = Collector(
    Still(action_space=Level.action_space),
    DummyVectorEnv([Level] * 2),
    VectorReplayBuffer(20, 2),
    preprocess_fn=preprocess,
)
collector.reset()
stats = collector.collect(n_step=8)
rows = collector.buffer.sample(0)[0]
print(json.dumps({"rew": rows.rew.tolist(), "obs": rows.obs.ravel().tolist(), "obs_next": rows.obs_next.ravel().tolist(), "returns": stats.returns.tolist(), "kinds": sorted({len(k) > 4 for k in keys})}))
