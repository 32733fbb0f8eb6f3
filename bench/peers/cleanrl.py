"""The prioritized buffer in CleanRL's script of Rainbow; the variant ``rlfast`` uses rlfast's in its place.

CleanRL is a set of scripts, not a library. ``RLFAST_CLEANRL_RAINBOW`` is the path of ``cleanrl/rainbow_atari.py`` of
its repository; by default it is in the folder ``cleanrl`` of ``RLFAST_PEERS``. Only the definitions of the buffer are
run, and not the training.
"""

from __future__ import annotations

import ast
import collections
import os
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.peers import workload

VARIANT = ""
PARTS = {"PrioritizedBatch", "SumSegmentTree", "MinSegmentTree", "PrioritizedReplayBuffer"}


def versions() -> dict[str, str]:
    return {"numpy": np.__version__, "torch": torch.__version__}


def script() -> Path:
    """Returns the path of the script.

    :raises FileNotFoundError: if it is in neither place.
    """
    folder = Path(os.environ.get("RLFAST_PEERS", "."), "cleanrl")
    path = Path(os.environ.get("RLFAST_CLEANRL_RAINBOW", folder / "rainbow_atari.py"))
    if not path.is_file():
        raise FileNotFoundError(
            f"{path}: put CleanRL's rainbow_atari.py there, or say where it is (RLFAST_CLEANRL_RAINBOW)"
        )
    return path


def defines(node: ast.stmt) -> bool:
    """Returns whether a statement at the top of the script defines one of ``PARTS``."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id in PARTS
    return isinstance(node, ast.ClassDef) and node.name in PARTS


def buffer_class() -> Any:
    if VARIANT:
        from rlfast.interop.cleanrl import PrioritizedReplayBuffer

        return PrioritizedReplayBuffer
    path = script()
    tree = ast.parse(path.read_text())
    tree.body = [node for node in tree.body if defines(node)]
    names: dict[str, Any] = {"np": np, "torch": torch, "collections": collections, "deque": collections.deque}
    exec(compile(tree, str(path), "exec"), names)
    return names["PrioritizedReplayBuffer"]


def rainbow(rows: int, batch_size: int, train_frequency: int) -> dict[str, Any]:
    """The calls of the buffer in one learning step of the script, with its settings."""
    shape = (workload.STACK, *workload.FRAME)
    buffer = buffer_class()(rows, shape, torch.device("cpu"), 3, 0.99, 0.5, 0.4, 1e-6)
    steps = [(s.obs, s.act, s.rew, s.obs_next, s.terminated) for s in workload.atari_steps(1)]
    stream = cycle(steps)

    def add(count: int) -> None:
        for step in islice(stream, count):
            buffer.add(*step)

    add(rows + 3)
    errors = cycle(workload.priorities(64, batch_size))

    def learning_steps(count: int) -> None:
        for error in islice(errors, count):
            add(train_frequency)
            buffer.update_priorities(buffer.sample(batch_size).indices, error)

    return {"add": add, "step": learning_steps}
