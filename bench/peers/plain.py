"""The driver without a library: a loop written by hand with NumPy and PyTorch."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch

from bench.peers import tasks, workload

VARIANT = ""


def versions() -> dict[str, str]:
    return {"gymnasium": gymnasium.__version__, "numpy": np.__version__, "torch": torch.__version__}


class Loop:
    """Steps environments one by one, and writes to arrays of ``size`` rows."""

    def __init__(self, task: str, envs: int, size: int) -> None:
        self.envs = [tasks.make(task) for _ in range(envs)]
        self.network = tasks.network(task).eval()
        self.actions = tasks.action_count(task)
        space = self.envs[0].observation_space
        self.rng = np.random.default_rng(0)
        self.obs = np.stack([env.reset()[0] for env in self.envs])
        self.stored = np.ones((size // envs, 2, envs, *space.shape), space.dtype)  # in RAM
        self.rest = np.zeros((size // envs, 4, envs))
        self.cursor = 0

    def choose(self) -> Any:
        with torch.no_grad():
            greedy = self.network(torch.as_tensor(self.obs)).argmax(1).numpy()
        explore = self.rng.random(len(self.envs)) < 0.1
        return np.where(explore, self.rng.integers(self.actions, size=len(self.envs)), greedy)

    def step(self, actions: Any) -> None:
        answers = [env.step(action) for env, action in zip(self.envs, actions, strict=True)]
        obs, rew, terminated, truncated, _ = zip(*answers, strict=True)
        obs_next = np.stack(obs)
        self.stored[self.cursor] = self.obs, obs_next
        self.rest[self.cursor] = actions, rew, terminated, truncated
        self.cursor = (self.cursor + 1) % len(self.stored)
        for i in np.flatnonzero(np.logical_or(terminated, truncated)):
            obs_next[i] = self.envs[i].reset()[0]
        self.obs = obs_next


def collect(task: str, envs: int, size: int) -> dict[str, Any]:
    loop = Loop(task, envs, size)

    def policy(count: int) -> None:
        for _ in range(count):
            loop.step(loop.choose())

    def random(count: int) -> None:
        for _ in range(count):
            loop.step(loop.rng.integers(loop.actions, size=envs))

    return {"policy": policy, "random": random}


def read_d4rl(rows: int, following: bool, compressed: bool) -> dict[str, Any]:
    import h5py

    file = workload.d4rl_file(rows, following, compressed)

    def run(count: int) -> None:
        for _ in range(count):
            with h5py.File(file.name, "r") as data:
                _ = [data[name][:] for name in data]

    return {"read": run}
