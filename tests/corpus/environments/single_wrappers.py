"""Wrappers for single environments: actions made discrete, truncation as termination."""

import json

import gymnasium as gym
import numpy as np
from tianshou.env import ContinuousToDiscrete, MultiDiscreteToDiscrete, TruncatedAsTerminated


class Echo(gym.Env):
    observation_space = gym.spaces.Box(-9, 9, (2,), np.float32)

    def __init__(self, action_space):
        self.action_space = action_space

    def reset(self, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.asarray(action, np.float32), 0.0, False, True, {}


box = gym.spaces.Box(np.array([-1, 0], np.float32), np.array([1, 8], np.float32))
grid = ContinuousToDiscrete(Echo(box), 5)
several = ContinuousToDiscrete(Echo(box), [3, 2])
flat = MultiDiscreteToDiscrete(Echo(gym.spaces.MultiDiscrete([2, 3])))
cut = TruncatedAsTerminated(Echo(box))
for env in (grid, several, flat, cut):
    env.reset()
print(
    json.dumps(
        {
            "grid": [str(grid.action_space), grid.step(np.array([4, 1]))[0].tolist()],
            "several": [str(several.action_space), several.step(np.array([1, 1]))[0].tolist()],
            "flat": [int(flat.action_space.n), [flat.step(a)[0].tolist() for a in range(6)]],
            "cut": [bool(flag) for flag in cut.step(np.zeros(2))[2:4]],
        }
    )
)
