"""A buffer that stacks frames while a collector fills it; only the newest frame is kept."""

import json

import gymnasium as gym
import numpy as np
from tianshou.data import Batch, Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.policy import BasePolicy


class Frames(gym.Env):
    observation_space = gym.spaces.Box(0, 255, (3, 2, 2), np.uint8)
    action_space = gym.spaces.Discrete(2)

    def _obs(self):
        return np.stack([np.full((2, 2), max(self.t - back, 0), np.uint8) for back in (2, 1, 0)])

    def reset(self, seed=None, options=None):
        self.t = 0
        return self._obs(), {}

    def step(self, action):
        self.t += 1
        return self._obs(), 1.0, False, self.t == 5, {}


class Up(BasePolicy):
    def forward(self, batch, state=None, **kwargs):
        return Batch(act=np.ones(len(batch.obs), int))

    def learn(self, batch, *args, **kwargs):
        return {}


out = {}
for ignore in (False, True):
    buffer = VectorReplayBuffer(24, 2, stack_num=3, save_only_last_obs=True, ignore_obs_next=ignore)
    collector = Collector(Up(action_space=Frames.action_space), DummyVectorEnv([Frames] * 2), buffer)
    collector.reset()
    collector.collect(n_step=14)
    rows, indices = buffer.sample(0)
    ends = rows.done.astype(bool)
    begins = np.roll(ends, 1) | np.isin(indices, [0, 12])
    inner = ~ends & ~begins & ~np.isin(buffer.prev(indices), [0, 12])
    inner &= ~np.isin(indices, buffer.unfinished_index())
    out[str(ignore)] = {
        "obs": rows.obs[:, :, 0, 0].tolist(),
        "next": rows.obs_next[inner][:, :, 0, 0].tolist(),
        "dtype": str(rows.obs.dtype),
        "unfinished": buffer.unfinished_index().tolist(),
        "one": buffer.get(3, "obs")[:, 0, 0].tolist(),
    }
print(json.dumps(out))
