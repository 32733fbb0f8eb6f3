"""All kinds of vector environments in the same episodes: shapes, types and infos of reset and step."""

import json

import gymnasium as gym
import numpy as np
from tianshou.env import DummyVectorEnv, ShmemVectorEnv, SubprocVectorEnv


class Ladder(gym.Env):
    observation_space = gym.spaces.Box(0, 100, (2,), np.float32)
    action_space = gym.spaces.Discrete(5)

    def __init__(self, start):
        self.start = start

    def reset(self, seed=None, options=None):
        self.at = self.start
        return np.full(2, self.at, np.float32), {"at": self.at}

    def step(self, action):
        self.at += int(action)
        return np.full(2, self.at, np.float32), float(action), self.at > 12, False, {"at": self.at, "word": "w"}


if __name__ == "__main__":
    out = {}
    for kind in (DummyVectorEnv, SubprocVectorEnv, ShmemVectorEnv):
        envs = kind([lambda i=i: Ladder(10 * i) for i in range(3)])
        obs, info = envs.reset()
        result = [obs.tolist(), str(obs.dtype), [i["at"] for i in info]]
        obs, rew, terminated, truncated, info = envs.step(np.array([1, 2, 3]))
        result += [obs.tolist(), rew.tolist(), terminated.tolist(), truncated.tolist(), str(terminated.dtype)]
        result += [type(info).__name__, [i["env_id"] for i in info], info[1]["word"]]
        obs, rew, *_ = envs.step([4, 4], id=[2, 0])
        result += [obs.tolist(), rew.tolist()]
        obs, info = envs.reset(1)
        result += [obs.tolist(), len(info), len(envs), envs.env_num, envs.is_async]
        result += [[str(s) for s in envs.action_space], len(envs.observation_space)]
        envs.close()
        out[kind.__name__] = result
    print(json.dumps(out))
