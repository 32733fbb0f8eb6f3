"""d3rlpy, whose buffers hold episodes: it is given observations, actions and rewards, and the end of an episode."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from d3rlpy.constants import ActionSpace
from d3rlpy.dataset import (
    BasicTrajectorySlicer,
    BasicTransitionPicker,
    Episode,
    FIFOBuffer,
    FrameStackTransitionPicker,
    InfiniteBuffer,
    MultiStepTransitionPicker,
    ReplayBuffer,
    Signature,
)
from d3rlpy.models.torch.distributions import GaussianDistribution, SquashedGaussianDistribution
from d3rlpy.torch_utility import soft_sync
from torch import nn

from bench.museum.adapters import DoesNotApply
from bench.museum.operations.rows import Row


def versions() -> dict[str, str]:
    return {"d3rlpy": version("d3rlpy"), "numpy": np.__version__, "torch": torch.__version__}


def signature(value: Any) -> Signature:
    array = np.atleast_1d(np.asarray(value))
    return Signature([array.dtype], [array.shape])


class Buffer:
    running = False

    def __init__(self, capacity: int, example: Row, picker: Any) -> None:
        if isinstance(example.obs, dict):
            raise DoesNotApply("no dicts")
        self.capacity, self.example, self.picker = capacity, example, picker
        signatures = [signature(value) for value in (example.obs, example.act, np.zeros(1, np.float32))]
        self.buffer = ReplayBuffer(
            FIFOBuffer(capacity),
            transition_picker=picker,
            observation_signature=signatures[0],
            action_signature=signatures[1],
            reward_signature=signatures[2],
            action_space=ActionSpace.CONTINUOUS,
            action_size=1,
        )

    def add(self, row: Row) -> None:
        if row.truncated:
            raise DoesNotApply("it is given no final observations, and leaves out the last row of a truncated episode")
        self.running = not row.terminated
        self.buffer.append(row.obs, np.atleast_1d(np.asarray(row.act)), row.rew)
        if row.terminated:
            self.buffer.clip_episode(True)

    def sample(self, count: int) -> dict[str, Any]:
        if self.running:
            raise DoesNotApply("it gives the newest row when the next observation has come")
        batch = self.buffer.sample_transition_batch(count)
        return {
            "obs": batch.observations,
            "act": batch.actions,
            "rew": batch.rewards.ravel(),
            "terminal": batch.terminals.ravel(),
            "obs_next": batch.next_observations,
            "interval": batch.intervals.ravel(),
        }

    def size(self) -> int:
        return int(self.buffer.transition_count)


def replay(capacity: int, example: Row, *, compact: bool = False, stack: int = 1, time_limits: bool = True) -> Buffer:
    return Buffer(capacity, example, FrameStackTransitionPicker(stack) if stack > 1 else BasicTransitionPicker())


def nstep(capacity: int, rows: list[Row], n_step: int, gamma: float, value: Any, prioritized: bool) -> Any:
    if prioritized:
        raise DoesNotApply("no prioritized replay")
    if np.isnan(value(np.array([row.obs_next[0] for row in rows]))).any():
        raise DoesNotApply("algorithms compute the target")
    buffer = Buffer(capacity, rows[0], MultiStepTransitionPicker(n_step, gamma))
    for row in rows:
        buffer.add(row)
    batch = buffer.sample(64 * capacity)
    discount = gamma ** batch["interval"] * (1 - batch["terminal"])
    target = batch["rew"] + discount * value(np.ravel(batch["obs_next"]))
    return zip(np.ravel(batch["obs"]), target, strict=True)


class Windows:
    """Whole episodes; sequences end in any of their rows, and are padded at the front."""

    def __init__(self, capacity: int, length: int) -> None:
        self.capacity, self.length, self.rows = capacity, length, []
        self.buffer = ReplayBuffer(
            InfiniteBuffer(),
            trajectory_slicer=BasicTrajectorySlicer(),
            observation_signature=Signature([np.dtype(np.float32)], [(2,)]),
            action_signature=Signature([np.dtype(np.float32)], [(1,)]),
            reward_signature=Signature([np.dtype(np.float32)], [(1,)]),
            action_space=ActionSpace.CONTINUOUS,
            action_size=1,
        )
        self.length = length

    def add(self, row: Row) -> None:
        self.rows.append(row.obs)
        if row.terminated or row.truncated:
            zeros = np.zeros((len(self.rows), 1), np.float32)
            self.buffer.append_episode(Episode(np.array(self.rows), zeros, zeros, terminated=row.terminated))
            self.rows = []

    def sample(self, count: int) -> Any:
        batch = self.buffer.sample_trajectory_batch(count, self.length)
        return [obs[mask > 0] for obs, mask in zip(batch.observations, batch.masks, strict=True)]


def sequences(capacity: int, length: int) -> Windows:
    return Windows(capacity, length)


def squashed_log_prob(mean: float, log_std: float, action: float) -> float:
    distribution = SquashedGaussianDistribution(torch.tensor([[mean]]), torch.tensor([[np.exp(log_std)]]))
    return distribution.log_prob(torch.tensor([[action]])).item()


def gaussian_log_prob(mean: float, std: float, action: float) -> float:
    loc = torch.tensor([[mean]])
    return GaussianDistribution(loc, torch.tensor([[std]]), loc).log_prob(torch.tensor([[action]])).item()


def polyak(target: nn.Module, source: nn.Module, tau: float) -> None:
    soft_sync(target, source, tau)
