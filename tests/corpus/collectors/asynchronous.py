"""An asynchronous collector over environments that are waited for in part."""

import json

import gymnasium as gym
import numpy as np
from tianshou.data import AsyncCollector, Batch, VectorReplayBuffer
from tianshou.env import SubprocVectorEnv
from tianshou.policy import BasePolicy


class Ladder(gym.Env):
    observation_space = gym.spaces.Box(0, 10, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        return np.full(1, self.t, np.float32), 1.0, self.t == 4, False, {}


class Up(BasePolicy):
    def forward(self, batch, state=None, **kwargs):
        return Batch(act=np.ones(len(batch.obs), int))

    def learn(self, batch, *args, **kwargs):
        return {}


if __name__ == "__main__":
    envs = SubprocVectorEnv([Ladder] * 3, wait_num=2)
    collector = AsyncCollector(Up(action_space=Ladder.action_space), envs, VectorReplayBuffer(90, 3))
    collector.reset()
    stats = collector.collect(n_step=24)
    rows = collector.buffer.sample(0)[0]
    follows = bool((rows.obs_next - rows.obs == 1).all())
    lens = set(stats.lens.tolist())
    episodes = collector.collect(n_episode=4)
    print(json.dumps({"enough": stats.n_collected_steps >= 24, "follows": follows, "lens": sorted(lens), "episodes": episodes.n_collected_episodes >= 4, "is": envs.is_async}))
    envs.close()
