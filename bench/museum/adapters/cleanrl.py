"""CleanRL: the buffer and the trees in its script of Rainbow; see :mod:`bench.peers.cleanrl`."""

from __future__ import annotations

import ast
import collections
from typing import Any

import numpy as np
import torch

from bench.museum.adapters import DoesNotApply, Slots
from bench.museum.operations.rows import Row
from bench.peers.cleanrl import defines, script


def names() -> dict[str, Any]:
    tree = ast.parse(script().read_text())
    tree.body = [node for node in tree.body if defines(node)]
    found: dict[str, Any] = {"np": np, "torch": torch, "collections": collections, "deque": collections.deque}
    exec(compile(tree, "rainbow_atari.py", "exec"), found)
    return found


NAMES = names()


def versions() -> dict[str, str]:
    return {"cleanrl": "rainbow_atari.py at 1149db8", "numpy": np.__version__, "torch": torch.__version__}


class Buffer(Slots):
    """Rows are given as the script does: its flag is the terminal one, and the observation is the final one."""

    def __init__(
        self, capacity: int, example: Row, n_step: int = 1, gamma: float = 1.0, alpha: float = 1.0, beta: float = 1.0
    ) -> None:
        if isinstance(example.obs, dict) or np.asarray(example.obs).dtype not in (
            np.dtype(np.uint8),
            np.dtype(np.float32),
        ):
            raise DoesNotApply("a script for images of bytes")
        kind = NAMES["PrioritizedReplayBuffer"]
        self.buffer = kind(capacity, np.shape(example.obs), torch.device("cpu"), n_step, gamma, alpha, beta, 1e-6)

    def add(self, row: Row) -> None:
        if not np.array_equal(row.obs, np.asarray(row.obs).astype(np.uint8)):
            raise DoesNotApply("a script for images of bytes")
        self.buffer.add(row.obs, row.act, row.rew, row.obs_next, row.terminated)

    def sample(self, count: int) -> dict[str, Any]:
        batch = self.buffer.sample(count)
        return {
            "obs": batch.observations.numpy(),
            "act": batch.actions.numpy(),
            "rew": batch.rewards.numpy().ravel(),
            "terminal": batch.dones.numpy().ravel(),
            "obs_next": batch.next_observations.numpy(),
            "index": np.array(batch.indices),
            "weight": batch.weights.numpy().ravel(),
        }

    def update(self, index: Any, priorities: Any) -> None:
        self.buffer.update_priorities(index, priorities)

    def size(self) -> int:
        return int(self.buffer.size)


def replay(capacity: int, example: Row, *, compact: bool = False, stack: int = 1, time_limits: bool = True) -> Buffer:
    if compact or stack > 1:
        raise DoesNotApply("whole stacks are stored")
    return Buffer(capacity, example)


EXAMPLE = Row(np.zeros(1, np.float32), 0, 0.0, False, False, np.zeros(1, np.float32))


def prioritized(capacity: int, alpha: float, beta: float) -> Buffer:
    return Buffer(capacity, EXAMPLE, alpha=alpha, beta=beta)


def nstep(capacity: int, rows: list[Row], n_step: int, gamma: float, value: Any, prioritized: bool) -> Any:
    if np.isnan(value(np.array([row.obs_next[0] for row in rows]))).any():
        raise DoesNotApply("the script computes the target")
    buffer = Buffer(capacity, rows[0], n_step, gamma)
    for row in rows:
        buffer.add(row)
    batch = buffer.sample(64 * capacity)
    # As the script: gamma_n = args.gamma**args.n_step
    target = batch["rew"] + gamma**n_step * (1 - batch["terminal"]) * value(np.ravel(batch["obs_next"]))
    return zip(np.ravel(batch["obs"]), target, strict=True)


class Tree:
    def __init__(self, leaves: np.ndarray) -> None:
        self.tree = NAMES["SumSegmentTree"](len(leaves))
        self.update(np.arange(len(leaves)), leaves)

    def find(self, masses: np.ndarray) -> Any:
        return [self.tree.retrieve(mass) for mass in masses]

    def total(self) -> float:
        return float(self.tree.total())

    def update(self, index: np.ndarray, values: np.ndarray) -> None:
        for place, value in zip(index, values, strict=True):
            self.tree.update(place, value)


def sum_tree(leaves: np.ndarray) -> Tree:
    return Tree(leaves)
