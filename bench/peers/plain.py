"""The driver without a library: a loop written by hand with NumPy and PyTorch."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch

from bench.peers import forms, tasks, workload

VARIANT = ""


def versions() -> dict[str, str]:
    return {"gymnasium": gymnasium.__version__, "numpy": np.__version__, "torch": torch.__version__}


class Loop:
    """Steps environments one by one, and writes to arrays of ``size`` rows."""

    def __init__(self, task: str, envs: int, size: int) -> None:
        self.envs = [tasks.make(task) for _ in range(envs)]
        self.network = tasks.network(task).eval()
        self.actions = tasks.action_count(task)
        space = self.envs[0].observation_space
        self.rng = np.random.default_rng(0)
        self.obs = np.stack([env.reset()[0] for env in self.envs])
        self.stored = np.ones((size // envs, 2, envs, *space.shape), space.dtype)  # in RAM
        self.rest = np.zeros((size // envs, 4, envs))
        self.cursor = 0

    def choose(self) -> Any:
        with torch.no_grad():
            greedy = self.network(torch.as_tensor(self.obs)).argmax(1).numpy()
        explore = self.rng.random(len(self.envs)) < 0.1
        return np.where(explore, self.rng.integers(self.actions, size=len(self.envs)), greedy)

    def step(self, actions: Any) -> None:
        answers = [env.step(action) for env, action in zip(self.envs, actions, strict=True)]
        obs, rew, terminated, truncated, _ = zip(*answers, strict=True)
        obs_next = np.stack(obs)
        self.stored[self.cursor] = self.obs, obs_next
        self.rest[self.cursor] = actions, rew, terminated, truncated
        self.cursor = (self.cursor + 1) % len(self.stored)
        for i in np.flatnonzero(np.logical_or(terminated, truncated)):
            obs_next[i] = self.envs[i].reset()[0]
        self.obs = obs_next


def collect(task: str, envs: int, size: int) -> dict[str, Any]:
    loop = Loop(task, envs, size)

    def policy(count: int) -> None:
        for _ in range(count):
            loop.step(loop.choose())

    def random(count: int) -> None:
        for _ in range(count):
            loop.step(loop.rng.integers(loop.actions, size=envs))

    return {"policy": policy, "random": random}


class Formed:
    """As :class:`Loop`, for observations of any form and a network with hidden states; rows and infos are as rlfast's,
    and rlfast's buffer stores them.
    """

    def __init__(self, form: str, envs: int, size: int) -> None:
        from rlfast.data import VectorReplayBuffer

        self.form, self.count = form, envs
        self.envs = [forms.make(form) for _ in range(envs)]
        self.network = forms.Network(form).eval()
        self.rng, self.ids = np.random.default_rng(0), np.arange(envs)
        self.obs = self.stacked([env.reset()[0] for env in self.envs])
        self.hidden: Any = None
        self.buffer = VectorReplayBuffer(size, envs)

    def stacked(self, rows: Any) -> Any:
        return (
            np.stack(rows) if self.form in ("array", "hidden") else {k: np.stack([r[k] for r in rows]) for k in rows[0]}
        )

    def step(self) -> None:
        obs, row = self.obs, {}
        with torch.no_grad():
            values, state = self.network(obs["obs"] if self.form == "mask" else obs, self.hidden)
            if self.form == "mask":
                values = values.masked_fill(torch.as_tensor(obs["mask"] == 0), -torch.inf)
            greedy = values.argmax(1).numpy()
        explore = self.rng.random(self.count) < 0.1
        act = np.where(explore, self.rng.integers(2, size=self.count), greedy)
        answers = [env.step(action) for env, action in zip(self.envs, act, strict=True)]
        rows, rew, terminated, truncated, _ = zip(*answers, strict=True)
        obs_next, terminated, truncated = self.stacked(rows), np.array(terminated), np.array(truncated)
        if self.form == "hidden":
            before = torch.zeros_like(state["hidden"]) if self.hidden is None else self.hidden["hidden"]
            row["policy"] = {"hidden_state": {"hidden": before.numpy()}}
        row |= {"obs": obs, "act": act, "rew": np.array(rew), "terminated": terminated, "truncated": truncated}
        self.buffer.add({**row, "obs_next": obs_next, "info": {"env_id": self.ids}}, self.ids)
        done = terminated | truncated
        if done.any():
            self.begin(np.flatnonzero(done), obs_next, state)
        else:
            self.obs, self.hidden = obs_next, state

    def begin(self, over: Any, obs_next: Any, state: Any) -> None:
        first = self.stacked([self.envs[i].reset()[0] for i in over])
        if isinstance(obs_next, dict):
            self.obs = {key: column.copy() for key, column in obs_next.items()}
            for key, column in self.obs.items():
                column[over] = first[key]
        else:
            self.obs = obs_next.copy()
            self.obs[over] = first
        self.hidden = state
        if state is not None:
            self.hidden = {"hidden": state["hidden"].clone()}
            self.hidden["hidden"][torch.as_tensor(over)] = 0


def collect_formed(form: str, envs: int, size: int) -> dict[str, Any]:
    loop = Formed(form, envs, size)

    def run(count: int) -> None:
        for _ in range(count):
            loop.step()

    return {"policy": run}


def read_d4rl(rows: int, following: bool, compressed: bool) -> dict[str, Any]:
    import h5py

    file = workload.d4rl_file(rows, following, compressed)

    def run(count: int) -> None:
        for _ in range(count):
            with h5py.File(file.name, "r") as data:
                _ = [data[name][:] for name in data]

    return {"read": run}
