"""Normalized observations, shared statistics, and a wrapper of the user around a vector environment."""

import json

import gymnasium as gym
import numpy as np
from tianshou.env import DummyVectorEnv, VectorEnvNormObs, VectorEnvWrapper


class Ramp(gym.Env):
    observation_space = gym.spaces.Box(0, 100, (2,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, slope):
        self.slope = slope

    def reset(self, seed=None, options=None):
        self.t = 0
        return np.array([0.0, self.slope]), {}

    def step(self, action):
        self.t += 1
        return np.array([self.t * self.slope, self.slope]), 1.0, False, self.t == 4, {}


class Doubled(VectorEnvWrapper):
    def step(self, action=None, id=None):
        obs, rew, terminated, truncated, info = self.venv.step(action, id)
        return obs, rew * 2, terminated, truncated, info


train = VectorEnvNormObs(DummyVectorEnv([lambda s=s: Ramp(s) for s in (1.0, 3.0)]))
test = VectorEnvNormObs(DummyVectorEnv([lambda: Ramp(2.0)]), update_obs_rms=False)
test.set_obs_rms(train.get_obs_rms())
seen = [train.reset()[0].tolist()]
for _ in range(3):
    seen.append(train.step(np.zeros(2, int))[0].tolist())
frozen = [test.reset()[0].tolist(), test.step(np.zeros(1, int))[0].tolist()]
rms = train.get_obs_rms()
doubled = Doubled(DummyVectorEnv([lambda: Ramp(1.0)] * 2))
doubled.reset()
print(json.dumps({"seen": seen, "frozen": frozen, "mean": np.asarray(rms.mean).tolist(), "var": np.asarray(rms.var).tolist(), "doubled": doubled.step(np.zeros(2, int))[1].tolist(), "len": len(doubled)}))
