"""Runs programs on the buffers of either library and tells what they answered. Called in each one's own interpreter:

python buffer_driver.py tianshou < programs.json > answers.json
"""

import importlib
import json
import sys
from typing import Any

import numpy as np

CLASSES = {
    "single": "ReplayBuffer",
    "manager": "ReplayBufferManager",
    "vector": "VectorReplayBuffer",
    "prioritized": "PrioritizedVectorReplayBuffer",
    "prioritized single": "PrioritizedReplayBuffer",
    "cached": "CachedReplayBuffer",
    "hindsight": "HERReplayBuffer",
    "hindsight vector": "HERVectorReplayBuffer",
}


def compute_reward(achieved_goal: np.ndarray, desired_goal: np.ndarray) -> np.ndarray:
    return np.where((achieved_goal == desired_goal).all(-1), 0.0, -1.0)


def build(data: Any, spec: dict[str, Any]) -> Any:
    options = spec["options"]
    if "load" in spec:
        trust = {"allow_pickle": True} if "hindsight" in spec["kind"] and data.__name__ == "rlfast.data" else {}
        return getattr(data, CLASSES[spec["kind"]]).load_hdf5(spec["load"], **trust)
    match spec["kind"]:
        case "prioritized single":
            return data.PrioritizedReplayBuffer(spec["sizes"][0], 0.6, 0.4, **options)
        case "hindsight":
            return data.HERReplayBuffer(spec["sizes"][0], compute_reward, 20, 4.0, **options)
        case "hindsight vector":
            goals = {"compute_reward_fn": compute_reward, "horizon": 20, "future_k": 4.0}
            return data.HERVectorReplayBuffer(sum(spec["sizes"]), len(spec["sizes"]), **goals, **options)
        case "single":
            return data.ReplayBuffer(spec["sizes"][0], **options)
        case "manager":
            return data.ReplayBufferManager([data.ReplayBuffer(size, **options) for size in spec["sizes"]])
        case "vector":
            return data.VectorReplayBuffer(sum(spec["sizes"]), len(spec["sizes"]), **options)
        case "prioritized":
            return data.PrioritizedVectorReplayBuffer(
                sum(spec["sizes"]), len(spec["sizes"]), alpha=0.6, beta=0.4, **options
            )
        case "cached":
            main = data.ReplayBuffer(spec["sizes"][0], **options)
            return data.CachedReplayBuffer(main, len(spec["sizes"]) - 1, spec["sizes"][1])
    raise ValueError(spec["kind"])


def frame(number: int, stacked: bool) -> list[Any]:
    """Returns an observation that differs from all others, as a stack of two frames if ``stacked``."""
    return [[number - 1, -number], [number, -number]] if stacked else [number, -number]


def row(step: dict[str, Any], stacked: bool) -> dict[str, Any]:
    now = step["now"]
    return {
        "obs": {
            "image": np.array(frame(now, stacked), np.int32),
            "state": np.array([now - 1.0, now] if stacked else float(now)),
        },
        "act": np.array([now, 2 * now], np.float32),
        "rew": step["rew"],
        "terminated": step["end"] == "terminated",
        "truncated": step["end"] == "truncated",
        "obs_next": {
            "image": np.array(frame(now + 1, stacked), np.int32),
            "state": np.array([now + 1.0] * (1 + stacked)),
        },
        "info": {"steps": now, "name": f"row {now}"},
        "policy": {"logits": np.array([now, now + 0.5])},
    }


def plain(value: Any) -> Any:
    """Arrays and batches as lists and dicts."""
    if isinstance(value, np.ndarray):
        return plain(value.tolist()) if value.dtype == object else value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (tuple, list)):
        return [plain(inner) for inner in value]
    if type(value).__name__ == "Batch":
        return {key: plain(inner) for key, inner in sorted(value.items())}
    return value.decode() if isinstance(value, bytes) else value  # HDF5 gives strings back as bytes


class Run:
    """One program on one buffer."""

    def __init__(self, data: Any, spec: dict[str, Any]) -> None:
        self.data, self.spec = data, spec
        self.buffer = build(data, spec)
        self.single = spec["kind"] in ("single", "prioritized single", "hindsight")
        self.rows = spec["options"].get("save_only_last_obs", False)

    def add(self, steps: list[dict[str, Any]]) -> Any:
        rows = [row(step, self.rows) for step in steps]
        if self.single:
            return self.buffer.add(self.data.Batch(rows[0]))
        return self.buffer.add(self.data.Batch.stack(rows), buffer_ids=[step["ring"] for step in steps])

    def all_rows(self) -> Any:
        indices = self.buffer.sample_indices(0)
        return indices, plain(self.buffer[indices]) if len(indices) else None

    def neighbours(self) -> Any:
        indices = self.buffer.sample_indices(0)
        return [self.buffer.prev(indices), self.buffer.next(indices)] if len(indices) else []

    def state(self) -> Any:
        buffer = self.buffer
        children = [] if self.single else [len(child) for child in buffer.buffers]
        held = [len(buffer), buffer.maxsize, children]
        if not len(buffer) or not min(self.spec["sizes"]):  # then Tianshou's unfinished_index raises
            return held
        return [*held, buffer.last_index, buffer.unfinished_index()]

    def columns(self) -> Any:
        indices = self.buffer.sample_indices(0)
        return {key: plain(getattr(self.buffer, key)[indices]) for key in ("obs", "act", "rew", "done", "info")}

    def get(self, key: str, stack_num: int) -> Any:
        indices = self.buffer.sample_indices(0)
        return plain(self.buffer.get(indices, key, stack_num=stack_num))

    def one(self, position: int) -> Any:
        indices = self.buffer.sample_indices(0)
        return plain(self.buffer[int(indices[position % len(indices)])]) if len(indices) else None

    def slice(self, start: int, stop: int) -> Any:
        return plain(self.buffer[start:stop].act) if self.single and len(self.buffer[start:stop].act) else None

    def reset(self, keep_statistics: bool) -> None:
        self.buffer.reset(keep_statistics=keep_statistics)

    def stored(self) -> Any:
        """Returns every column as it is stored, and the pointers."""
        names = ("obs", "act", "rew", "terminated", "truncated", "done", "obs_next", "info", "policy")
        live = np.sort(np.concatenate([np.arange(len(b)) + o for b, o in self.rings()]))
        columns = {name: plain(getattr(self.buffer, name)[live]) for name in names if hasattr(self.buffer, name)}
        running = [[b._index, b._size, b._ep_rew, b._ep_len, b._ep_idx] for b, _ in self.rings()]
        return [columns, running, self.buffer.last_index, self.buffer.maxsize]

    def rings(self) -> Any:
        return [(self.buffer, 0)] if self.single else zip(self.buffer.buffers, self.buffer._offset, strict=True)

    def priorities(self) -> Any:
        rows = np.sort(self.buffer.sample_indices(0))
        return [self.buffer.weight[rows].tolist(), float(self.buffer._max_prio), self.buffer._alpha, self.buffer._beta]

    def reprioritize(self) -> None:
        rows = np.sort(self.buffer.sample_indices(0))
        self.buffer.update_weight(rows, (rows % 7) + 0.5)

    def save(self, path: str) -> None:
        self.buffer.save_hdf5(path)

    def moved(self, size: int) -> Any:
        """All rows, moved twice into a new buffer, environment by environment."""
        other = self.data.ReplayBuffer(size, **self.spec["options"])
        indices = [other.update(one) for one in 2 * [*getattr(self.buffer, "buffers", [self.buffer])]]
        rows = other.sample_indices(0)
        return [indices, len(other), plain(other[rows]) if len(rows) else None, other.unfinished_index()]

    def step(self, name: str, *arguments: Any) -> Any:
        if name not in ("add", "state", "reset", "save", "stored") and len(self.buffer) == 0:
            return None
        return plain(getattr(self, name)(*arguments))


def main() -> None:
    data = importlib.import_module(f"{sys.argv[1]}.data")
    answers = []
    for program in json.load(sys.stdin):
        run = Run(data, program)
        answers.append([run.step(*operation) for operation in program["operations"]])
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
