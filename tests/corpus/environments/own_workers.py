"""The base class with workers of one's own choice."""

import json

import gymnasium as gym
import numpy as np
from tianshou.env import BaseVectorEnv
from tianshou.env.worker import DummyEnvWorker, SubprocEnvWorker


class Counter(gym.Env):
    observation_space = gym.spaces.Box(0, 100, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        return np.full(1, self.t, np.float32), 1.0, False, False, {}


class Loud(DummyEnvWorker):
    sent = 0

    def send(self, action, **kwargs):
        Loud.sent += 1
        super().send(action, **kwargs)


if __name__ == "__main__":
    out = {}
    for worker in (DummyEnvWorker, Loud, lambda fn: SubprocEnvWorker(fn, share_memory=True)):
        envs = BaseVectorEnv([Counter] * 2, worker)
        envs.reset()
        obs, rew, *_ = envs.step(np.zeros(2, int))
        out[str(len(out))] = [obs.tolist(), rew.tolist(), len(envs.workers)]
        envs.close()
    print(json.dumps(out | {"sent": Loud.sent >= 2}))
