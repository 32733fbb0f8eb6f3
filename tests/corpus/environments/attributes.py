"""Attributes of the environments, read and written; rendering; seeds."""

import json

import gymnasium as gym
import numpy as np
from tianshou.env import DummyVectorEnv, SubprocVectorEnv


class Named(gym.Env):
    observation_space = gym.spaces.Box(0, 1, (1,))
    action_space = gym.spaces.Discrete(2)
    render_mode = "rgb_array"
    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, name):
        self.name = name

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.random(1).astype(np.float32), {"seed": seed}

    def step(self, action):
        return np.zeros(1, np.float32), 0.0, False, False, {}

    def render(self):
        return f"picture of {self.name}"


if __name__ == "__main__":
    out = {}
    for kind in (DummyVectorEnv, SubprocVectorEnv):
        envs = kind([lambda n=n: Named(n) for n in "abc"])
        envs.seed(7)
        first = envs.reset()[0].ravel().tolist()
        envs.seed([7, 8, 9])
        second = envs.reset()[0].ravel().tolist()
        envs.set_env_attr("name", "z", id=1)
        names = envs.get_env_attr("name")
        names += envs.get_env_attr("name", id=[0, 1])
        out[kind.__name__] = [first == second, len(set(first)), names, list(envs.render())]
        envs.close()
    print(json.dumps(out))
