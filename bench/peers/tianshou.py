"""The driver of Tianshou 1.0.0 and 2.0.1, whose calls have the same names; samples are batches of NumPy arrays.

The variant ``rlfast`` is Tianshou with rlfast's buffers.
"""

from __future__ import annotations

from importlib import import_module
from itertools import cycle, islice
from typing import Any

import numpy as np
import tianshou
import torch
from tianshou.data import Batch, PrioritizedReplayBuffer, ReplayBuffer, SegmentTree, VectorReplayBuffer

from bench.peers import workload

VARIANT = ""
if tianshou.__version__.startswith("1."):
    from tianshou.policy.base import BasePolicy as Returns
    from tianshou.policy.base import _gae_return as gae_kernel
else:
    from tianshou.algorithm.algorithm_base import Algorithm as Returns
    from tianshou.algorithm.algorithm_base import _gae as gae_kernel


def versions() -> dict[str, str]:
    return {"tianshou": tianshou.__version__, "numpy": np.__version__, "torch": torch.__version__}


def as_batch(step: workload.Transition) -> Batch:
    return Batch(
        obs=step.obs,
        act=step.act,
        rew=step.rew,
        terminated=step.terminated,
        truncated=step.truncated,
        obs_next=step.obs_next,
    )


def fill(buffer: ReplayBuffer, rows: int, obs_dim: int, act_dim: int) -> None:
    """Fills a buffer: one ``add`` makes the columns, into which the other rows are written directly."""
    at = 0
    for block in workload.chunks(rows, obs_dim, act_dim):
        if at == 0:
            buffer.add(as_batch(workload.Transition(*(column[0] for column in block))))
        part = slice(at, at + len(block.rew))
        for name, column in block._asdict().items():
            getattr(buffer._meta, name)[part] = column
        buffer._meta.done[part] = block.terminated | block.truncated
        at = part.stop
    buffer._size, buffer._ep_idx = rows, 0
    setattr(buffer, "_index" if hasattr(buffer, "_index") else "_insertion_idx", rows % buffer.maxsize)


def adding(
    buffer: ReplayBuffer, steps: list[workload.Transition], envs: int | None, info: workload.Info | None = None
) -> Any:
    """Returns an operation that adds steps to a buffer, which is filled first, so that all its memory is in RAM.

    :param info: makes the ``info`` of each step from the class ``Batch``; None for steps without.
    """
    stream, ids = cycle(steps), None if envs is None else np.arange(envs)

    def run(count: int) -> None:
        for step in islice(stream, count):
            buffer.add(as_batch(step), buffer_ids=ids)

    def run_with_info(count: int) -> None:
        for step in islice(stream, count):
            row = Batch(
                obs=step.obs,
                act=step.act,
                rew=step.rew,
                terminated=step.terminated,
                truncated=step.truncated,
                obs_next=step.obs_next,
                info=info(Batch),
            )
            buffer.add(row, buffer_ids=ids)

    run = run if info is None else run_with_info

    run(buffer.maxsize // (envs or 1))
    return run


def add_one(obs_dim: int, rows: int) -> dict[str, Any]:
    steps = workload.single_steps(10_000, obs_dim, 0)
    infos = {
        f"add {name}": adding(ReplayBuffer(rows), steps, None, info) for name, info in workload.infos(None).items()
    }
    return {"add": adding(ReplayBuffer(rows), steps, None), **infos}


def add_vector(envs: int, obs_dim: int, act_dim: int, rows: int) -> dict[str, Any]:
    steps = workload.vector_steps(1000, envs, obs_dim, act_dim)
    kinds = workload.infos(envs)
    infos = {f"add {name}": adding(VectorReplayBuffer(rows, envs), steps, envs, info) for name, info in kinds.items()}
    return {"add": adding(VectorReplayBuffer(rows, envs), steps, envs), **infos}


def atari_buffer(rows: int, envs: int) -> VectorReplayBuffer:
    """Prepares the settings of Tianshou's Atari scripts, which store single frames and rebuild stacks."""
    return VectorReplayBuffer(rows, envs, stack_num=workload.STACK, ignore_obs_next=True, save_only_last_obs=True)


def add_atari(envs: int, rows: int) -> dict[str, Any]:
    return {"add": adding(atari_buffer(rows, envs), workload.atari_steps(envs), envs)}


def sample_rows(rows: int, obs_dim: int, act_dim: int, batch_sizes: list[int]) -> dict[str, Any]:
    buffer = ReplayBuffer(rows)
    fill(buffer, rows, obs_dim, act_dim)
    return workload.sampling(buffer.sample, batch_sizes)


def sample_atari(rows: int, envs: int, batch_sizes: list[int]) -> dict[str, Any]:
    buffer = atari_buffer(rows, envs)
    adding(buffer, workload.atari_steps(envs), envs)
    return workload.sampling(buffer.sample, batch_sizes)


def prioritized_vector(rows: int, envs: int, batch_size: int) -> dict[str, Any]:
    """Prepares sampling and new priorities as in a policy's ``update``."""
    data = import_module("rlfast.interop.tianshou" if VARIANT else "tianshou.data")
    buffer = data.PrioritizedVectorReplayBuffer(rows, envs, alpha=0.6, beta=0.4)
    adding(buffer, workload.vector_steps(1000, envs, 4, 0), envs)
    errors = cycle([torch.from_numpy(error) for error in workload.priorities(64, batch_size)])

    def run(count: int) -> None:
        for error in islice(errors, count):
            _, index = buffer.sample(batch_size)
            buffer.update_weight(index, error)

    return {"sample+update": run}


def prioritized(rows: int, batch_size: int) -> dict[str, Any]:
    buffer = PrioritizedReplayBuffer(rows, alpha=0.6, beta=0.4)
    fill(buffer, rows, 4, 0)
    buffer.update_weight(np.arange(rows), workload.priorities(1, rows)[0])
    errors = cycle(workload.priorities(64, batch_size))

    def run(count: int) -> None:
        for error in islice(errors, count):
            _, index = buffer.sample(batch_size)
            buffer.update_weight(index, error)

    return {"sample+update": run}


def tree(size: int, batch_size: int) -> dict[str, Any]:
    segments = SegmentTree(size)
    segments[np.arange(size)] = workload.priorities(1, size)[0]
    values = cycle(workload.priorities(64, batch_size))

    def run(count: int) -> None:
        for value in islice(values, count):
            index = segments.get_prefix_sum_idx(np.random.rand(batch_size) * segments.reduce())
            segments[index] = value

    return {"sample+update": run}


def nstep(rows: int, envs: int, n_step: int, batch_size: int) -> dict[str, Any]:
    buffer = VectorReplayBuffer(rows, envs)
    adding(buffer, workload.vector_steps(1000, envs, 4, 0), envs)
    target_q = torch.rand(batch_size, 1)
    given, given_index = buffer.sample(batch_size)

    def alone(count: int) -> None:
        for _ in range(count):
            Returns.compute_nstep_return(given, buffer, given_index, lambda *_: target_q, 0.99, n_step)

    def with_sample(count: int) -> None:
        for _ in range(count):
            batch, index = buffer.sample(batch_size)
            Returns.compute_nstep_return(batch, buffer, index, lambda *_: target_q, 0.99, n_step)

    return {"alone": alone, "sample+nstep": with_sample}


def gae(steps: int, envs: int) -> dict[str, Any]:
    data = workload.returns_data(steps, envs)
    flat = {name: np.ascontiguousarray(value.T).ravel() for name, value in data.items()}
    end = flat["terminated"] | flat["truncated"]
    last = np.zeros((envs, steps), bool)
    last[:, -1] = True
    end_flag = end | last.ravel()
    buffer, ids, obs = VectorReplayBuffer(steps * envs, envs), np.arange(envs), np.zeros((envs, 4), np.float32)
    for t in range(steps):
        row = {name: data[name][t] for name in ("rew", "terminated", "truncated")}
        buffer.add(as_batch(workload.Transition(obs=obs, act=ids, obs_next=obs, **row)), buffer_ids=ids)
    batch, index = buffer.sample(0)
    value, value_next = torch.from_numpy(flat["value"]), torch.from_numpy(flat["value_next"])
    masked = flat["value_next"] * ~flat["terminated"]

    def kernel(count: int) -> None:
        for _ in range(count):
            gae_kernel(flat["value"], masked, flat["rew"], end_flag, 0.99, 0.95)

    def call(count: int) -> None:
        for _ in range(count):
            Returns.compute_episodic_return(batch, buffer, index, value_next, value, 0.99, 0.95)

    return {"kernel": kernel, "call": call}


def memory_atari(envs: int, rows: int) -> dict[str, Any]:
    steps = workload.atari_steps(envs)

    def fill_new(rows: int = rows) -> VectorReplayBuffer:
        buffer = atari_buffer(rows, envs)
        adding(buffer, steps, envs)
        return buffer

    fill_new(16 * envs)  # what the first use loads is not the buffer's memory
    return {"fill": fill_new}


def memory_rows(obs_dim: int, act_dim: int, rows: int) -> dict[str, Any]:
    steps = workload.single_steps(10_000, obs_dim, act_dim, dtype="float64", episode=1000)

    def fill_new(rows: int = rows) -> ReplayBuffer:
        buffer = ReplayBuffer(rows)
        adding(buffer, steps, None)
        return buffer

    fill_new(16)
    return {"fill": fill_new}


def dqn(envs: int, hidden: list[int]) -> dict[str, Any]:
    from bench.peers.dqn import training

    return training("tianshou", envs, hidden, "rlfast.interop.tianshou" if VARIANT else "tianshou.data")


def collect(task: str, envs: int, size: int) -> dict[str, Any]:
    from bench.peers.collecting import collecting, dummy

    return collecting("tianshou", dummy("tianshou", task, envs), task, size)


def choose() -> dict[str, Any]:
    from bench.peers.collecting import choosing

    return choosing("tianshou")


def evaluate(envs: int, episodes: int, limit: int) -> dict[str, Any]:
    from bench.peers.collecting import dummy, evaluating

    return evaluating("tianshou", dummy("tianshou", "cartpole", envs, limit), episodes)


def training(algorithm: str) -> dict[str, Any]:
    from bench.peers import training as script

    torch.manual_seed(0)
    policy = getattr(script, algorithm)("tianshou", script.plain_adam)
    return {"train": script.loop("tianshou", algorithm, policy, script.environments("tianshou", algorithm))}


def offline(algorithm: str) -> dict[str, Any]:
    from bench.peers import training as script

    torch.manual_seed(0)
    policy = getattr(script, algorithm)("tianshou", script.plain_adam)
    return {"train": script.offline_loop("tianshou", policy)}


script = training


def first_steps(algorithm: str) -> dict[str, Any]:
    return workload.first_steps("tianshou", algorithm)


def threshold(algorithm: str) -> dict[str, Any]:
    from bench.peers import thresholds

    return thresholds.tianshou(algorithm)


sample_frames = sample_atari
