"""Options for reset go through to the environments, at the start and between episodes; collectors render when asked."""

import json

import gymnasium as gym
import numpy as np
from tianshou.data import Batch, Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.policy import BasePolicy


class Start(gym.Env):
    metadata = {"render_modes": ["rgb_array"]}
    observation_space = gym.spaces.Box(0, 100, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)
    render_mode = "rgb_array"
    rendered = 0

    def reset(self, seed=None, options=None):
        self.t = (options or {}).get("start", 0)
        return np.full(1, self.t, np.float32), {}

    def step(self, action):
        self.t += 1
        return np.full(1, self.t, np.float32), 1.0, self.t % 3 == 0, False, {}

    def render(self):
        Start.rendered += 1


class Up(BasePolicy):
    def forward(self, batch, state=None, **kwargs):
        return Batch(act=np.ones(len(batch.obs), int))

    def learn(self, batch, *args, **kwargs):
        return {}


collector = Collector(Up(action_space=Start.action_space), DummyVectorEnv([Start]), VectorReplayBuffer(30, 1))
collector.reset(gym_reset_kwargs={"options": {"start": 30}})
collector.collect(n_step=4, gym_reset_kwargs={"options": {"start": 60}})
obs = collector.buffer.sample(0)[0].obs.ravel().tolist()
collector.collect(n_step=2, render=0.0)
silent = Start.rendered
collector.collect(n_step=2, render=1e-6)
collector.reset_buffer()
collector.reset_env({"options": {"start": 90}})
collector.collect(n_step=3)
print(json.dumps({"obs": obs, "silent": silent, "loud": Start.rendered > 0, "again": collector.buffer.sample(0)[0].obs.ravel().tolist()}))
