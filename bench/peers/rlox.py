"""The driver of rlox, which has only flat float32 rows, and whose samples are dicts of NumPy arrays."""

from __future__ import annotations

from importlib.metadata import version
from itertools import cycle, islice
from typing import Any

import numpy as np
import rlox

from bench.peers import workload

VARIANT = ""


def versions() -> dict[str, str]:
    return {"rlox": version("rlox"), "numpy": np.__version__}


def flat(step: workload.Transition) -> tuple[Any, ...]:
    """Returns the positional arguments of ``push``."""
    act = np.atleast_1d(np.asarray(step.act, np.float32))
    return (step.obs, act, step.rew, step.terminated, step.truncated, step.obs_next)


def add_one(obs_dim: int, rows: int) -> dict[str, Any]:
    buffer = rlox.ReplayBuffer(rows, obs_dim, 1)
    stream = cycle([flat(step) for step in workload.single_steps(10_000, obs_dim, 0)])

    def run(count: int) -> None:
        for obs, act, rew, terminated, truncated, obs_next in islice(stream, count):
            buffer.push(obs, act, rew, terminated, truncated, obs_next)

    run(rows)
    return {"keywords": run}


def sample_rows(rows: int, obs_dim: int, act_dim: int, batch_sizes: list[int]) -> dict[str, Any]:
    buffer = rlox.ReplayBuffer(rows, obs_dim, max(act_dim, 1))
    for block in workload.chunks(rows, obs_dim, act_dim):
        for row in zip(*block, strict=True):
            buffer.push(*flat(workload.Transition(*row)))

    def sample(size: int) -> Any:
        def run(count: int) -> None:
            for seed in range(count):
                buffer.sample(size, seed)

        return run

    return {str(size): sample(size) for size in batch_sizes}


def prioritized(rows: int, batch_size: int) -> dict[str, Any]:
    buffer = rlox.PrioritizedReplayBuffer(rows, 4, 1, alpha=0.6, beta=0.4)
    initial = workload.priorities(1, rows)[0]
    numbered = 0
    for block in workload.chunks(rows, 4, 0):
        for row in zip(*block, strict=True):
            buffer.push(*flat(workload.Transition(*row)), priority=initial[numbered])
            numbered += 1
    errors = cycle(workload.priorities(64, batch_size))
    seeds = iter(range(1 << 60))

    def run(count: int) -> None:
        for error in islice(errors, count):
            batch = buffer.sample(batch_size, next(seeds))
            buffer.update_priorities(batch["indices"], error)

    return {"sample+update": run}


def gae(steps: int, envs: int) -> dict[str, Any]:
    data = {name: np.ascontiguousarray(value.T).ravel() for name, value in workload.returns_data(steps, envs).items()}
    done = (data["terminated"] | data["truncated"]).astype(np.float32)
    last = np.ascontiguousarray(data["value_next"].reshape(envs, steps)[:, -1])

    def kernel(count: int) -> None:
        for _ in range(count):
            rlox.compute_gae_batched_f32(data["rew"], data["value"], done, last, steps, 0.99, 0.95)

    return {"kernel": kernel}


def vector_step(id: str, num_envs: int) -> dict[str, Any]:
    """Prepares steps with random actions; environments are reset in the step that ends their episode."""
    envs = rlox.VecEnv(num_envs, 0, id)
    envs.reset_all()
    rounds = np.random.default_rng(0).integers(0, 2, (64, num_envs)).astype(np.uint32)
    actions = cycle(list(rounds))

    def step(count: int) -> None:
        for action in islice(actions, count):
            envs.step_all(action)

    step(300)
    return {"step": step}
