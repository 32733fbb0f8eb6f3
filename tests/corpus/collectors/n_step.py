"""Collects steps from environments of unequal length, twice, and looks at every row."""

import json

import gymnasium as gym
import numpy as np
from tianshou.data import Batch, Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.policy import BasePolicy


class Walk(gym.Env):
    def __init__(self, size):
        self.size = size
        self.observation_space = gym.spaces.Box(0, 100, (1,), np.float32)
        self.action_space = gym.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return np.array([self.at], np.float32), {"at": self.at}

    def step(self, action):
        self.at += 1
        return np.array([self.at], np.float32), float(self.at), self.at >= self.size, False, {"at": self.at}


class Right(BasePolicy):
    def forward(self, batch, state=None, **kwargs):
        return Batch(act=np.ones(len(batch.obs), int))

    def learn(self, batch, *args, **kwargs):
        raise NotImplementedError


envs = DummyVectorEnv([lambda size=size: Walk(size) for size in (2, 3, 4)])
policy = Right(action_space=gym.spaces.Discrete(2), observation_space=envs.observation_space[0])
collector = Collector(policy, envs, VectorReplayBuffer(60, 3))
collector.reset()
out = {}
for name in ("first", "second"):
    stats = collector.collect(n_step=12)
    out[name] = [stats.n_collected_steps, stats.n_collected_episodes, sorted(stats.returns.tolist()), sorted(stats.lens.tolist())]
rows, indices = collector.buffer.sample(0)
out["indices"] = indices.tolist()
for key in ("obs", "obs_next", "act", "rew", "terminated", "truncated", "done"):
    out[key] = np.asarray(rows[key]).ravel().tolist()
out["info"] = rows.info.at.tolist()
out["env_id"] = rows.info.env_id.tolist()
print(json.dumps(out))
