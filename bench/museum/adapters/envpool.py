"""EnvPool, which runs its own environments only."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import envpool
import gymnasium as gym
import numpy as np

COMPILED = True


def versions() -> dict[str, str]:
    return {"envpool": version("envpool"), "numpy": np.__version__, "gymnasium": gym.__version__}


def make(task: str, envs: int, **options: Any) -> Any:
    return envpool.make_gymnasium(task, num_envs=envs, **options)


def first_observations(seed: int, envs: int) -> Any:
    pool = make("CartPole-v1", envs, seed=seed)
    return [np.array(pool.reset()[0]), np.array(pool.reset()[0])]


def own_starts(tasks: list[str], envs: int) -> dict[str, Any]:
    found = {}
    for task in set(tasks) & set(envpool.list_all_envs()):
        pool = make(task, envs, seed=0)
        found[task] = np.concatenate([np.array(pool.reset()[0]) for _ in range(3)])
    return found


def step_without_reset() -> Any:
    return make("CartPole-v1", 2).step(np.zeros(2, int))[1]


def wide_step(envs: int) -> Any:
    pool = make("CartPole-v1", envs)
    pool.reset()
    return pool.step(np.zeros(envs, int))[0]


def limited_cartpole(envs: int, limit: int) -> Any:
    return make("CartPole-v1", envs, max_episode_steps=limit)
