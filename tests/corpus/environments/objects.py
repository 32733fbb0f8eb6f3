"""Observations that are no arrays but objects of the user."""

import json

import gymnasium as gym
import numpy as np
from tianshou.data import Batch, Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv, SubprocVectorEnv
from tianshou.policy import BasePolicy


class Molecule:
    def __init__(self, atoms):
        self.atoms = atoms


class Odd(gym.Env):
    observation_space = None
    action_space = gym.spaces.Discrete(2)

    def __init__(self, nested):
        self.nested = nested

    def _obs(self):
        molecule = Molecule(self.t + 1)
        return {"molecule": molecule, "count": self.t} if self.nested else molecule

    def reset(self, seed=None, options=None):
        self.t = 0
        return self._obs(), {}

    def step(self, action):
        self.t += 1
        return self._obs(), 1.0, self.t == 3, False, {}


class Still(BasePolicy):
    def forward(self, batch, state=None, **kwargs):
        return Batch(act=np.zeros(len(batch.obs), int))

    def learn(self, batch, *args, **kwargs):
        return {}


if __name__ == "__main__":
    out = {}
    for kind in (DummyVectorEnv, SubprocVectorEnv):
        for nested in (False, True):
            envs = kind([lambda: Odd(nested)] * 2)
            collector = Collector(Still(action_space=gym.spaces.Discrete(2)), envs, VectorReplayBuffer(20, 2))
            collector.reset()
            collector.collect(n_step=8)
            rows = collector.buffer.sample(0)[0]
            pairs = [(r.molecule if nested else r) for r in (rows.obs, rows.obs_next)]
            out[f"{kind.__name__} {nested}"] = [[m.atoms for m in p] for p in pairs]
            envs.close()
    print(json.dumps(out))
