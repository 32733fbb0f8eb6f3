"""Collects from scripted environments with either library: ``python collector_driver.py tianshou``.

Prints JSON: the statistics of every collect, then all columns of every ring.
"""

import json
import sys
from importlib import import_module

import gymnasium as gym
import numpy as np

LIBRARY = sys.argv[1]
data, env, policy = (import_module(f"{LIBRARY}.{name}") for name in ("data", "env", "policy"))

PROGRAMS = (
    (3, (("n_step", 6), ("n_step", 9), ("n_step", 3))),
    (4, (("n_episode", 7),)),
    (4, (("n_episode", 2),)),
    (3, (("n_step", 12), ("n_episode", 5))),
    (1, (("n_step", 5), ("n_episode", 1))),
)
COLUMNS = ("obs", "act", "rew", "obs_next", "terminated", "truncated", "done")


class Counting(gym.Env):
    """Shows its number, the episode and the step; every second one ends its episodes by truncation."""

    def __init__(self, number):
        self.number, self.length, self.truncates = number, 2 + number, number % 2 == 1
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (3,), np.float64)
        self.action_space = gym.spaces.Discrete(5)
        self.episode = -1

    def reset(self, seed=None, options=None):
        self.episode += 1
        self.count = 0
        return np.array([self.number, self.episode, 0.0]), {}

    def step(self, action):
        self.count += 1
        over = self.count >= self.length + self.episode % 2
        obs = np.array([self.number, self.episode, self.count], float)
        return obs, float(action) + self.count, over and not self.truncates, over and self.truncates, {"at": self.count}


class Adding(policy.BasePolicy):
    def forward(self, batch, state=None, **_):
        return data.Batch(act=(batch.obs[:, 0] + batch.obs[:, 2]).astype(int) % 5)

    def learn(self, *_, **__):
        raise NotImplementedError


def run(number, calls):
    envs = env.DummyVectorEnv([lambda i=i: Counting(i) for i in range(number)])
    buffer = data.VectorReplayBuffer(100 * number, number)
    collector = data.Collector(Adding(action_space=gym.spaces.Discrete(5)), envs, buffer)
    collects = []
    for kind, count in calls:
        stats = collector.collect(**{kind: count})
        collects.append(
            [stats.n_collected_steps, stats.n_collected_episodes, stats.returns.tolist(), stats.lens.tolist()]
        )
    rings = []
    for ring in buffer.buffers:
        columns = {name: getattr(ring, name)[: len(ring)].tolist() for name in COLUMNS}
        columns |= {name: np.asarray(getattr(ring.info, name)[: len(ring)]).tolist() for name in ("at", "env_id")}
        rings.append(columns)
    return {"collects": collects, "rings": rings}


if __name__ == "__main__":
    json.dump([run(number, calls) for number, calls in PROGRAMS], sys.stdout)
