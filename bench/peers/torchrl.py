"""The driver of TorchRL with its C++ extension; rows and samples are TensorDicts of torch tensors.

It uses a plain ``ReplayBuffer`` over flat keys, which is faster than ``TensorDictReplayBuffer`` with its nested
``next``,
and does the same work here. The variant ``rlfast`` is TorchRL with rlfast's buffer.
"""

from __future__ import annotations

from itertools import cycle, islice
from typing import Any

import numpy as np
import torch
import torchrl
from tensordict import TensorDict
from torchrl._torchrl import SumSegmentTreeFp32
from torchrl.data import LazyTensorStorage, PrioritizedSampler, ReplayBuffer, TensorDictPrioritizedReplayBuffer
from torchrl.objectives.value.functional import vec_generalized_advantage_estimate

from bench.peers import workload

VARIANT = ""


def versions() -> dict[str, str]:
    return {"torchrl": torchrl.__version__, "numpy": np.__version__, "torch": torch.__version__}


def as_tensordict(step: workload.Transition, shape: list[int]) -> TensorDict:
    return TensorDict({name: torch.as_tensor(value) for name, value in step._asdict().items()}, shape)


def adding(buffer: ReplayBuffer, steps: list[workload.Transition], envs: int | None) -> Any:
    """Returns an operation that adds steps to a buffer, which is filled first, so that all its memory is in RAM."""
    stream = cycle(steps)

    def one(count: int) -> None:
        for step in islice(stream, count):
            buffer.add(as_tensordict(step, []))

    def vector(count: int) -> None:
        for step in islice(stream, count):
            buffer.extend(as_tensordict(step, [envs]))  # type: ignore[list-item]

    run = one if envs is None else vector
    run(buffer.storage.max_size // (envs or 1))
    return run


def new_buffer(rows: int) -> ReplayBuffer:
    return ReplayBuffer(storage=LazyTensorStorage(rows))


def add_one(obs_dim: int, rows: int) -> dict[str, Any]:
    return {"add": adding(new_buffer(rows), workload.single_steps(10_000, obs_dim, 0), None)}


def add_vector(envs: int, obs_dim: int, act_dim: int, rows: int) -> dict[str, Any]:
    return {"add": adding(new_buffer(rows), workload.vector_steps(1000, envs, obs_dim, act_dim), envs)}


def add_atari(envs: int, rows: int) -> dict[str, Any]:
    return {"add": adding(new_buffer(rows), workload.atari_steps(envs), envs)}


def fill(buffer: ReplayBuffer, rows: int, obs_dim: int, act_dim: int) -> None:
    for block in workload.chunks(rows, obs_dim, act_dim):
        buffer.extend(as_tensordict(block, [len(block.rew)]))


def sample_rows(rows: int, obs_dim: int, act_dim: int, batch_sizes: list[int]) -> dict[str, Any]:
    buffer = new_buffer(rows)
    fill(buffer, rows, obs_dim, act_dim)
    return workload.sampling(buffer.sample, batch_sizes)


def sample_atari(rows: int, envs: int, batch_sizes: list[int]) -> dict[str, Any]:
    buffer = new_buffer(rows)
    adding(buffer, workload.atari_steps(envs), envs)
    return workload.sampling(buffer.sample, batch_sizes)


def prioritized(rows: int, batch_size: int) -> dict[str, Any]:
    sampler = PrioritizedSampler(rows, alpha=0.6, beta=0.4)
    buffer = ReplayBuffer(storage=LazyTensorStorage(rows), sampler=sampler)
    fill(buffer, rows, 4, 0)
    buffer.update_priority(torch.arange(rows), torch.from_numpy(workload.priorities(1, rows)[0]).float())
    errors = cycle([torch.from_numpy(error).float() for error in workload.priorities(64, batch_size)])

    def run(count: int) -> None:
        for error in islice(errors, count):
            _, info = buffer.sample(batch_size, return_info=True)
            buffer.update_priority(info["index"], error)

    return {"sample+update": run}


def prioritized_tensordict(rows: int, batch_size: int) -> dict[str, Any]:
    """Prepares the nested layout of TorchRL's collectors, in the buffer class of its examples or in rlfast's."""
    if VARIANT:
        from rlfast.interop.torchrl import TensorDictReplayBuffer

        buffer = TensorDictReplayBuffer(rows, alpha=0.6, beta=0.4, batch_size=batch_size)
    else:
        storage = LazyTensorStorage(rows)
        buffer = TensorDictPrioritizedReplayBuffer(alpha=0.6, beta=0.4, storage=storage, batch_size=batch_size)
    for block in workload.chunks(rows, 4, 0):
        ends = {name: torch.from_numpy(getattr(block, name))[:, None] for name in ("terminated", "truncated")}
        following = ends | {"observation": block.obs_next, "done": ends["terminated"] | ends["truncated"]}
        following["reward"] = torch.from_numpy(block.rew).float()[:, None]
        size = [len(block.rew)]
        root = {"observation": block.obs, "action": block.act, "next": TensorDict(following, size)}
        buffer.extend(TensorDict(root, size))
    buffer.update_priority(torch.arange(rows), torch.from_numpy(workload.priorities(1, rows)[0]).float())
    errors = cycle([torch.from_numpy(error).float() for error in workload.priorities(64, batch_size)])

    def run(count: int) -> None:
        for error in islice(errors, count):
            batch = buffer.sample()
            batch.set("td_error", error)
            buffer.update_tensordict_priority(batch)

    return {"sample+update": run}


def tree(size: int, batch_size: int) -> dict[str, Any]:
    segments = SumSegmentTreeFp32(size)
    segments[np.arange(size)] = workload.priorities(1, size)[0].astype(np.float32)
    values = cycle([value.astype(np.float32) for value in workload.priorities(64, batch_size)])

    def run(count: int) -> None:
        for value in islice(values, count):
            mass = np.random.rand(batch_size) * segments.query(0, size)
            index = segments.scan_lower_bound(mass.astype(np.float32))
            segments[index] = value

    return {"sample+update": run}


def gae(steps: int, envs: int) -> dict[str, Any]:
    data = {
        name: torch.from_numpy(value.T.copy())[..., None] for name, value in workload.returns_data(steps, envs).items()
    }
    done = data["terminated"] | data["truncated"]
    values = (data["value"], data["value_next"], data["rew"], done, data["terminated"])

    def call(count: int) -> None:
        for _ in range(count):
            vec_generalized_advantage_estimate(0.99, 0.95, *values)

    return {"call": call}


def memory_atari(envs: int, rows: int) -> dict[str, Any]:
    steps = workload.atari_steps(envs)

    def fill_new(rows: int = rows) -> ReplayBuffer:
        buffer = new_buffer(rows)
        adding(buffer, steps, envs)
        return buffer

    fill_new(16 * envs)  # what the first use loads is not the buffer's memory
    return {"fill": fill_new}
