"""Actions are stored as the policy means them; noise and the map to the space come between."""

import json

import gymnasium as gym
import numpy as np
from tianshou.data import Batch, Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.policy import BasePolicy


class Echo(gym.Env):
    observation_space = gym.spaces.Box(-10, 10, (2,), np.float32)
    action_space = gym.spaces.Box(np.array([0.0, -4.0], np.float32), np.array([10.0, 4.0], np.float32))

    def reset(self, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.asarray(action, np.float32), float(action[0]), False, False, {"action": np.array(action)}


class Half(BasePolicy):
    def forward(self, batch, state=None, **kwargs):
        return Batch(act=np.full((len(batch.obs), 2), 0.5, np.float32))

    def exploration_noise(self, act, batch):
        return act + np.float32(1.0)

    def learn(self, batch, *args, **kwargs):
        return {}


out = {}
for bound in ("clip", "tanh"):
    for noise in (False, True):
        policy = Half(action_space=Echo.action_space, action_scaling=True, action_bound_method=bound)
        collector = Collector(policy, DummyVectorEnv([Echo]), VectorReplayBuffer(5, 1), exploration_noise=noise)
        collector.reset()
        collector.collect(n_step=2)
        rows = collector.buffer.sample(0)[0]
        out[f"{bound} {noise}"] = [rows.act.tolist(), rows.obs_next.tolist(), rows.info.action.tolist()]
print(json.dumps(out))
