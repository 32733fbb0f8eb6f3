"""Steps of some environments only, by send and wait: wait_num and the ids in infos."""

import json

import gymnasium as gym
import numpy as np
from tianshou.env import SubprocVectorEnv


class Counter(gym.Env):
    observation_space = gym.spaces.Box(0, 100, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        return np.full(1, self.t, np.float32), 1.0, False, False, {}


if __name__ == "__main__":
    envs = SubprocVectorEnv([Counter] * 4, wait_num=3, timeout=0.5)
    envs.reset()
    steps = np.zeros(4, int)
    waiting = np.arange(4)
    sizes = []
    for _ in range(12):
        obs, rew, terminated, truncated, info = envs.step(np.zeros(len(waiting), int), waiting)
        waiting = np.array([i["env_id"] for i in info])
        steps[waiting] += 1
        sizes.append(len(waiting))
        assert obs.ravel().tolist() == steps[waiting].tolist()
    print(json.dumps({"enough": min(sizes) >= 1, "all": bool((steps > 0).all()), "async": envs.is_async}))
    envs.close()
