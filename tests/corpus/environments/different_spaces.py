"""Environments of several sizes in one vector: bounds differ, dtype and shape agree, or do not."""

import json

import gymnasium as gym
import numpy as np
from tianshou.env import DummyVectorEnv, SubprocVectorEnv


class Sized(gym.Env):
    def __init__(self, size, wide=False):
        self.size, self.wide = size, wide
        self.observation_space = gym.spaces.Box(0, size, (size if wide else 1,), np.float32)
        self.action_space = gym.spaces.Discrete(size)

    def _obs(self):
        return np.full(self.size if self.wide else 1, self.at, np.float32)

    def reset(self, seed=None, options=None):
        self.at = 0
        return self._obs(), {}

    def step(self, action):
        self.at += 1
        return self._obs(), float(action), self.at >= self.size, False, {}


if __name__ == "__main__":
    out = {}
    for kind in (DummyVectorEnv, SubprocVectorEnv):
        for wide in (False, True):
            envs = kind([lambda n=n: Sized(n, wide) for n in (2, 3, 4)])
            obs, _ = envs.reset()
            steps = [[o.tolist() for o in obs], str(obs.dtype)]
            for _ in range(2):
                obs, rew, done, _, _ = envs.step(np.array([0, 1, 2]))
                steps += [[o.tolist() for o in obs], rew.tolist(), done.tolist()]
            steps += [[int(s.n) for s in envs.action_space], [float(s.high.max()) for s in envs.observation_space]]
            envs.close()
            out[f"{kind.__name__} {wide}"] = steps
    print(json.dumps(out))
