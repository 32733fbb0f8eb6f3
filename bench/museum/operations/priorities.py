"""Prioritized replay.

Adapters: ``sum_tree(leaves)`` returns an object with ``find(masses)``, ``total()`` and ``update(indices, values)``.
``prioritized(capacity, alpha, beta)`` returns a buffer as ``replay`` does, with ``update(index, priorities)``, whose
samples also have ``index`` and ``weight``; ``slots(rows)`` gives the indices of the rows with these numbers, as a
sample would.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.museum.adapters import DoesNotApply
from bench.museum.operations.rows import episodes, needs

__all__ = [
    "draws",
    "first_draws",
    "late_update",
    "refused_priorities",
    "tree_behind",
    "tree_capacities",
    "tree_drift",
    "tree_find",
    "tree_update",
    "weights",
]


def tree_find(library: Any, *, leaves: list[float], masses: list[float]) -> Any:
    """The leaf that each mass finds."""
    return np.asarray(needs(library, "sum_tree")(np.array(leaves)).find(np.array(masses))).tolist()


def tree_capacities(library: Any, *, capacities: list[int]) -> Any:
    """The capacities with which equal leaves get unequal shares."""
    make, wrong = needs(library, "sum_tree"), []
    for capacity in capacities:
        found = np.asarray(make(np.ones(capacity)).find(np.arange(capacity) + 0.5))
        if sorted(found.tolist()) != list(range(capacity)):
            wrong.append(capacity)
    return wrong


def tree_behind(library: Any, *, capacity: int, live: int, rounds: int) -> Any:
    """The number of draws of leaves that were never set, while the others change by orders of magnitude."""
    random = np.random.default_rng(0)
    tree, behind = needs(library, "sum_tree")(np.zeros(capacity)), 0
    for _ in range(rounds):
        tree.update(random.permutation(live), random.random(live) * 10.0 ** random.integers(-8, 8, live))
        behind += int((np.asarray(tree.find(random.random(100) * tree.total())) >= live).sum())
    return behind


def tree_drift(library: Any, *, capacity: int, updates: int) -> Any:
    """Whether the total equals the sum of the leaves after many updates, to 1e-6."""
    random = np.random.default_rng(0)
    tree, leaves = needs(library, "sum_tree")(np.zeros(capacity)), np.zeros(capacity)
    for _ in range(updates // 1000):
        index, values = random.integers(0, capacity, 1000), random.random(1000) * 10.0 ** random.integers(-6, 6, 1000)
        index, place = np.unique(index, return_index=True)
        tree.update(index, values[place])
        leaves[index] = values[place]
    return {"holds": bool(abs(tree.total() - leaves.sum()) <= 1e-6 * leaves.sum())}


def tree_update(library: Any, *, leaves: list[float], index: list[int], values: list[float]) -> Any:
    """The total after an update."""
    tree = needs(library, "sum_tree")(np.array(leaves))
    tree.update(np.array(index), np.array(values))
    return float(tree.total())


def shares(buffer: Any, count: int = 40_000) -> dict[int, float]:
    """How often each row is drawn, in hundredths."""
    drawn = np.concatenate([np.asarray(buffer.sample(1000)["act"]).reshape(-1) for _ in range(count // 1000)])
    return {int(row): round(float((drawn == row).mean()), 2) for row in np.unique(drawn)}


def full(library: Any, priorities: list[float], alpha: float, beta: float) -> Any:
    buffer = needs(library, "prioritized")(len(priorities), alpha, beta)
    for row in episodes("." * len(priorities)):
        buffer.add(row)
    buffer.update(buffer.slots(range(len(priorities))), np.array(priorities, np.float64))
    return buffer


def draws(
    library: Any,
    *,
    priorities: list[float],
    alpha: float = 1.0,
    more: int = 0,
    index: list[int] | None = None,
    values: list[float] | None = None,
    as_tensors: bool = False,
) -> Any:
    """The share of draws of each row, after setting ``values`` at ``index`` and adding ``more`` rows."""
    buffer = full(library, priorities, alpha, 1.0)
    if index is not None:
        slots, new = buffer.slots(index), np.array(values, np.float64)
        if as_tensors:
            if not getattr(library, "TENSOR_INDICES", False):
                raise DoesNotApply("indices are arrays")
            import torch

            slots, new = torch.as_tensor(np.asarray(slots)), torch.as_tensor(new)
        buffer.update(slots, new)
    for row in episodes("." * more, first=len(priorities)):
        buffer.add(row)
    return shares(buffer)


def first_draws(library: Any, *, capacity: int, count: int) -> Any:
    """The share of draws of each row, after each of the first rows."""
    buffer, found = needs(library, "prioritized")(capacity, 1.0, 1.0), []
    for row in episodes("." * count):
        buffer.add(row)
        found.append(shares(buffer, 10_000))
    return found


def refused_priorities(library: Any, *, priorities: list[float], bad: float) -> Any:
    """Whether an update with a bad priority is refused, and the share of draws afterwards."""
    buffer = full(library, priorities, 1.0, 1.0)
    refused = True
    try:
        buffer.update(buffer.slots([0, 1]), np.array([9.0, bad]))
        refused = False
    except BaseException:
        pass
    try:
        after: Any = shares(buffer, 20_000)
    except BaseException as error:  # a panic of Rust is none of the usual exceptions
        after = f"sampling fails: {type(error).__name__}"
    return {"refused": refused, "draws": after}


def late_update(library: Any, *, capacity: int, more: int, priority: float) -> Any:
    """The share of draws if priorities arrive after ``more`` sampled rows were overwritten."""
    buffer = full(library, [1.0] * capacity, 1.0, 1.0)
    late = buffer.sample(64 * capacity)["index"]
    for row in episodes("." * more, first=capacity):
        buffer.add(row)
    buffer.update(late, np.full(64 * capacity, priority))
    return shares(buffer)


def weights(library: Any, *, priorities: list[float], beta: float) -> Any:
    """The importance weight of each row."""
    buffer = full(library, priorities, 1.0, beta)
    batch = buffer.sample(1000)
    rows, weight = (np.asarray(batch[key]).reshape(-1) for key in ("act", "weight"))
    return {int(row): round(float(weight[rows == row][0]), 3) for row in np.unique(rows)}
