"""The driver of cpprb, whose samples are dicts of NumPy arrays."""

from __future__ import annotations

from importlib.metadata import version
from itertools import cycle, islice
from typing import Any

import numpy as np
from cpprb import PrioritizedReplayBuffer, ReplayBuffer

from bench.peers import workload

VARIANT = ""


def versions() -> dict[str, str]:
    return {"cpprb": version("cpprb"), "numpy": np.__version__}


def columns(obs_dim: int, act_dim: int) -> dict[str, dict[str, Any]]:
    act = {"shape": act_dim, "dtype": np.float32} if act_dim else {"shape": 1, "dtype": np.int64}
    obs = {"shape": obs_dim, "dtype": np.float32}
    flags = {name: {"shape": 1, "dtype": np.bool_} for name in ("terminated", "truncated")}
    return {"obs": obs, "act": act, "rew": {"shape": 1, "dtype": np.float64}, **flags, "obs_next": obs}


def fill(buffer: ReplayBuffer, rows: int, obs_dim: int, act_dim: int) -> None:
    for block in workload.chunks(rows, obs_dim, act_dim):
        buffer.add(**block._asdict())


def add_one(obs_dim: int, rows: int) -> dict[str, Any]:
    buffer = ReplayBuffer(rows, columns(obs_dim, 0))
    stream = cycle(workload.single_steps(10_000, obs_dim, 0))

    def run(count: int) -> None:
        for obs, act, rew, terminated, truncated, obs_next in islice(stream, count):
            buffer.add(obs=obs, act=act, rew=rew, terminated=terminated, truncated=truncated, obs_next=obs_next)

    run(rows)
    return {"add": run}


def add_vector(envs: int, obs_dim: int, act_dim: int, rows: int) -> dict[str, Any]:
    buffer = ReplayBuffer(rows, columns(obs_dim, act_dim))
    stream = cycle(workload.vector_steps(1000, envs, obs_dim, act_dim))

    def run(count: int) -> None:
        for obs, act, rew, terminated, truncated, obs_next in islice(stream, count):
            buffer.add(obs=obs, act=act, rew=rew, terminated=terminated, truncated=truncated, obs_next=obs_next)

    run(rows)
    return {"add": run}


def sample_rows(rows: int, obs_dim: int, act_dim: int, batch_sizes: list[int]) -> dict[str, Any]:
    buffer = ReplayBuffer(rows, columns(obs_dim, act_dim))
    fill(buffer, rows, obs_dim, act_dim)
    return workload.sampling(buffer.sample, batch_sizes)


def prioritized(rows: int, batch_size: int) -> dict[str, Any]:
    buffer = PrioritizedReplayBuffer(rows, columns(4, 0), alpha=0.6)
    fill(buffer, rows, 4, 0)
    buffer.update_priorities(np.arange(rows), workload.priorities(1, rows)[0])
    errors = cycle(workload.priorities(64, batch_size))

    def run(count: int) -> None:
        for error in islice(errors, count):
            batch = buffer.sample(batch_size, 0.4)
            buffer.update_priorities(batch["indexes"], error)

    return {"sample+update": run}
