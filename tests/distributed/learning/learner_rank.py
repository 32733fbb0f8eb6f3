"""A learner of rank 1 in a process of its own, for test_group.py: python learner_rank.py ADDRESS FOLDER ALGORITHM."""

import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import torch

from rlfast.data import Batch, ReplayBuffer
from rlfast.distributed.learning.group import Group, share_gradients
from rlfast.experiment.algorithms import ALGORITHMS
from rlfast.experiment.networks import Networks

ROWS, STEPS = 32, 5


def policy(name):
    env = gym.make("CartPole-v1" if name == "dqn" else "Pendulum-v1")
    torch.manual_seed(3)
    algorithm = ALGORITHMS[name]
    made = algorithm.config(hidden_sizes=(16,), **({"max_grad_norm": 0.05} if name == "ppo" else {}))
    built = algorithm.build(Networks(made, algorithm.title, env.observation_space, env.action_space))
    built.train()
    return built


def buffer(name, step):
    """The rows of a gradient step."""
    rng = np.random.default_rng(step)
    width, discrete = (4, True) if name == "dqn" else (3, False)
    rows = ReplayBuffer(ROWS, seed=0)
    for _ in range(ROWS):
        act = rng.integers(2) if discrete else rng.uniform(-1, 1, 1).astype(np.float32)
        obs, obs_next = rng.normal(size=(2, width)).astype(np.float32)
        done = bool(rng.random() < 0.2)
        rows.add(Batch(obs=obs, act=act, rew=rng.normal(), terminated=done, truncated=False, obs_next=obs_next))
    return rows


class Part:
    """The rows of one of several learners."""

    def __init__(self, rows, rank, size):
        self.rows, self.rank, self.size = rows, rank, size

    def sample(self, _):
        indices = np.arange(self.rank, ROWS, self.size)
        return self.rows[indices], indices

    def __getattr__(self, name):
        return getattr(self.rows, name)

    def __getitem__(self, index):
        return self.rows[index]


def learn(name, rank, size):
    """The weights after some gradient steps."""
    made = policy(name)
    for step in range(STEPS):
        made.update(ROWS // size, Part(buffer(name, step), rank, size))
    return made


if __name__ == "__main__":
    address, folder, name = sys.argv[1:]
    torch.set_num_threads(1)
    group = Group(1, 2, address)
    made = policy(name)
    share_gradients(made, group)
    for step in range(STEPS):
        made.update(ROWS // 2, Part(buffer(name, step), 1, 2))
    assert group.largest(2.5) == 7.0
    torch.save(dict(made.named_parameters()), Path(folder) / "rank1.pt")
    group.close()
