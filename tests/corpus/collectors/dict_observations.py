"""Observations that are dicts of arrays, read by a policy through attributes."""

import json

import gymnasium as gym
import numpy as np
import torch
from tianshou.data import Batch, Collector, ReplayBuffer, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.policy import BasePolicy


class Parts(gym.Env):
    def __init__(self):
        self.observation_space = gym.spaces.Dict(
            {
                "index": gym.spaces.Box(0, 20, (1,), np.int64),
                "image": gym.spaces.Box(0, 255, (2, 2), np.uint8),
                "deep": gym.spaces.Dict({"value": gym.spaces.Box(-1, 1, (), np.float64)}),
            }
        )
        self.action_space = gym.spaces.Discrete(4)

    def _obs(self):
        return {
            "index": np.array([self.t], np.int64),
            "image": np.full((2, 2), self.t * 10, np.uint8),
            "deep": {"value": np.float64(self.t / 10)},
        }

    def reset(self, seed=None, options=None):
        self.t = 0
        return self._obs(), {"key": 1, "env": "name"}

    def step(self, action):
        self.t += 1
        return self._obs(), float(action), self.t == 4, False, {"key": self.t, "env": "name"}


class ByIndex(BasePolicy):
    def forward(self, batch, state=None, **kwargs):
        act = torch.as_tensor(batch.obs.index[:, 0] + np.round(10 * batch.obs.deep.value).astype(int)) % 4
        return Batch(act=act)

    def learn(self, batch, *args, **kwargs):
        return {}


def show(buffer):
    rows, _ = buffer.sample(0)
    return {
        "index": rows.obs.index.ravel().tolist(),
        "image": [rows.obs.image.shape[1:], str(rows.obs.image.dtype), rows.obs.image.sum().item()],
        "next": np.asarray(rows.obs_next.deep.value).ravel().tolist(),
        "act": rows.act.tolist(),
        "key": rows.info.key.tolist(),
        "name": list(rows.info.env[:2]),
    }


policy = ByIndex(action_space=gym.spaces.Discrete(4))
many = Collector(policy, DummyVectorEnv([Parts] * 3), VectorReplayBuffer(30, 3))
many.reset()
many.collect(n_step=15)
one = Collector(policy, DummyVectorEnv([Parts]), ReplayBuffer(10))
one.reset()
one.collect(n_episode=2)
print(json.dumps({"many": show(many.buffer), "one": show(one.buffer)}))
