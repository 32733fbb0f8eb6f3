"""cpprb."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from cpprb import HindsightReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer

from bench.museum.adapters import DoesNotApply, Slots
from bench.museum.operations.rows import Row

COMPILED = True


def versions() -> dict[str, str]:
    return {"cpprb": version("cpprb"), "numpy": np.__version__}


def column(value: Any) -> dict[str, Any]:
    array = np.asarray(value)
    return {"shape": array.shape or 1, "dtype": array.dtype}


def columns(example: Row) -> dict[str, Any]:
    if isinstance(example.obs, dict):
        raise DoesNotApply("no dicts")
    fields = {name: column(getattr(example, name)) for name in ("obs", "act", "obs_next")}
    return {
        "obs": fields["obs"],
        "act": fields["act"],
        "rew": {"shape": 1, "dtype": np.float64},
        "next_obs": fields["obs_next"],
        "done": {"shape": 1, "dtype": np.float64},
    }


class Buffer(Slots):
    """``done`` is the terminal flag, and ``on_episode_end`` is called at every end, as its documentation asks for."""

    beta: float | None = None

    def __init__(self, buffer: Any) -> None:
        self.buffer = buffer

    def add(self, row: Row) -> None:
        self.buffer.add(obs=row.obs, act=row.act, rew=row.rew, next_obs=row.obs_next, done=float(row.terminated))
        if row.terminated or row.truncated:
            self.buffer.on_episode_end()

    def sample(self, count: int) -> dict[str, Any]:
        batch = self.buffer.sample(count) if self.beta is None else self.buffer.sample(count, self.beta)
        found = {
            "obs": batch["obs"],
            "act": batch["act"],
            "rew": batch["rew"].ravel(),
            "terminal": batch["done"].ravel(),
            "obs_next": batch["next_obs"],
        }
        return found if self.beta is None else {**found, "index": batch["indexes"], "weight": batch["weights"]}

    def update(self, index: Any, priorities: Any) -> None:
        self.buffer.update_priorities(index, priorities)

    def size(self) -> int:
        return int(self.buffer.get_stored_size())

    def save(self, path: Path) -> None:
        self.buffer.save_transitions(str(path.with_suffix(".npz")))

    def load(self, path: Path) -> Buffer:
        other = Buffer(self.make())
        other.make, other.beta = self.make, self.beta
        other.buffer.load_transitions(str(path.with_suffix(".npz")))
        return other


def replay(capacity: int, example: Row, *, compact: bool = False, stack: int = 1, time_limits: bool = True) -> Buffer:
    if stack > 1:
        raise DoesNotApply("stacks are made by environments; it can store them compressed")
    fields = columns(example)
    options = {"next_of": "obs"} if compact else {}
    if compact:
        del fields["next_obs"]
    buffer = Buffer(ReplayBuffer(capacity, fields, **options))
    buffer.make = lambda: ReplayBuffer(capacity, fields, **options)
    return buffer


EXAMPLE = Row(np.zeros(1, np.float32), 0, 0.0, False, False, np.zeros(1, np.float32))


def prioritized(capacity: int, alpha: float, beta: float) -> Buffer:
    buffer = Priorities(PrioritizedReplayBuffer(capacity, columns(EXAMPLE), alpha=alpha, check_for_update=True))
    buffer.beta = beta
    return buffer


def nstep(capacity: int, rows: list[Row], n_step: int, gamma: float, value: Any, prioritized: bool) -> Any:
    if np.isnan(value(np.array([row.obs_next[0] for row in rows]))).any():
        raise DoesNotApply("users compute the target")
    given = {"size": n_step, "gamma": gamma, "rew": "rew", "next": "next_obs"}
    kind = PrioritizedReplayBuffer if prioritized else ReplayBuffer
    buffer = Buffer(kind(capacity, columns(rows[0]), Nstep=given))
    buffer.beta = 1.0 if prioritized else None
    for row in rows:
        buffer.add(row)
    batch = buffer.sample(64 * capacity)
    # The buffer does not say how many steps it added up; its documentation multiplies by the power of all of them.
    target = batch["rew"] + gamma**n_step * (1 - batch["terminal"]) * value(np.ravel(batch["obs_next"]))
    return zip(np.ravel(batch["obs"]), target, strict=True)


class Priorities(Buffer):
    save = property()  # it saves transitions, and not priorities


class Goals:
    """Observations are achieved goals; the desired one is stored beside them."""

    def __init__(self, capacity: int, reward: Any, episode_length: int) -> None:
        shape = {"shape": 2, "dtype": np.float32}
        self.buffer = HindsightReplayBuffer(
            capacity,
            {"obs": shape, "act": {}, "next_obs": shape},
            max_episode_len=episode_length,
            reward_func=lambda state, act, goal: reward(state, goal),
            additional_goals=4,
            prioritized=False,
        )

    def add(self, row: Row) -> None:
        achieved = row.obs["achieved_goal"], row.obs_next["achieved_goal"]
        self.buffer.add(obs=achieved[0], act=0, next_obs=achieved[1])
        if row.terminated or row.truncated:
            self.buffer.on_episode_end(row.obs["desired_goal"])

    def sample(self, count: int) -> dict[str, Any]:
        batch = self.buffer.sample(count)
        return {
            "obs": {"achieved_goal": batch["obs"], "desired_goal": batch["goal"]},
            "obs_next": {"achieved_goal": batch["next_obs"]},
            "rew": batch["rew"],
        }


def her(capacity: int, example: Row, reward: Any, episode_length: int) -> Goals:
    return Goals(capacity, reward, episode_length)


def hostile_file(folder: Path, payload: Any) -> Any:
    """What ``load_transitions`` reads may hold pickles."""
    buffer, path = Buffer(ReplayBuffer(4, columns(EXAMPLE))), folder / "buffer.npz"
    buffer.add(EXAMPLE)
    buffer.save(path)
    with np.load(path, allow_pickle=True) as file:
        parts = {name: file[name] for name in file.files}
    np.savez(path, **{**parts, "data": np.array([payload], object)})
    return lambda: ReplayBuffer(4, columns(EXAMPLE)).load_transitions(str(path))
