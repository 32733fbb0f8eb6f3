"""Actions of several spaces go to the environments as they are given."""

import json

import gymnasium as gym
import numpy as np
from tianshou.env import DummyVectorEnv, SubprocVectorEnv


class Told(gym.Env):
    observation_space = gym.spaces.Box(0, 1, (1,), np.float32)

    def __init__(self, space):
        self.action_space = space

    def reset(self, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        if isinstance(action, dict):
            shown = {k: np.asarray(v).tolist() for k, v in action.items()}
        else:
            shown = np.asarray(action).tolist()
        return np.zeros(1, np.float32), 0.0, False, False, {"told": shown}


if __name__ == "__main__":
    cases = {
        "discrete": (gym.spaces.Discrete(3), np.array([2, 7])),
        "multi": (gym.spaces.MultiDiscrete([3, 4]), np.array([[2, 3], [1, 0]])),
        "box": (gym.spaces.Box(-1, 1, (2,)), np.array([[0.5, -3.0], [0.25, 1.0]])),
        "list": (gym.spaces.Discrete(3), [1, 0]),
    }
    out = {}
    for kind in (DummyVectorEnv, SubprocVectorEnv):
        for name, (space, actions) in cases.items():
            envs = kind([lambda: Told(space)] * 2)
            envs.reset()
            out[f"{kind.__name__} {name}"] = [i["told"] for i in envs.step(actions)[4]]
            envs.close()
    print(json.dumps(out))
