"""What rlfast, Tianshou 1.0 and Tianshou 2.0 call by the same names; each of their adapters gives its own modules."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.museum.adapters import DoesNotApply, Slots
from bench.museum.operations.agents import as_aec
from bench.museum.operations.rows import Row
from bench.museum.operations.scripted import Counter


class Buffer(Slots):
    """A buffer of ``data``, the module with ``Batch`` and the buffers."""

    def __init__(self, data: Any, buffer: Any) -> None:
        self.data, self.buffer = data, buffer

    def add(self, row: Row) -> None:
        self.buffer.add(self.data.Batch(**row._replace(act=np.asarray(row.act))._asdict(), info={}))

    def sample(self, count: int) -> dict[str, Any]:
        batch, index = self.buffer.sample(count)
        found = {
            "obs": batch.obs,
            "act": batch.act,
            "rew": batch.rew,
            "terminal": batch.terminated,
            "obs_next": batch.obs_next,
            "index": index,
        }
        return found | ({"weight": batch.weight} if hasattr(self.buffer, "update_weight") else {})

    def update(self, index: Any, priorities: Any) -> None:
        self.buffer.update_weight(index, priorities)

    def size(self) -> int:
        return len(self.buffer)

    def save(self, path: Path) -> None:
        path.write_bytes(pickle.dumps(self.buffer))  # both libraries' documentation saves buffers so

    def load(self, path: Path) -> Buffer:
        return Buffer(self.data, pickle.loads(path.read_bytes()))


class Tree:
    def __init__(self, data: Any, leaves: np.ndarray) -> None:
        self.tree = data.SegmentTree(len(leaves))
        self.tree[np.arange(len(leaves))] = leaves

    def find(self, masses: np.ndarray) -> Any:
        return self.tree.get_prefix_sum_idx(masses)

    def total(self) -> float:
        return float(self.tree.reduce())

    def update(self, index: np.ndarray, values: np.ndarray) -> None:
        self.tree[index] = values


class Normalizer:
    def __init__(self, make: Callable[[], Any]) -> None:
        self.rms = make()

    def update(self, rows: np.ndarray) -> None:
        self.rms.update(rows)

    def normalize(self, rows: np.ndarray) -> Any:
        return self.rms.norm(rows)

    def moments(self) -> tuple[Any, Any]:
        return self.rms.mean, self.rms.var

    def restored(self) -> Normalizer:
        return Normalizer(lambda: pickle.loads(pickle.dumps(self.rms)))


class Vector:
    def __init__(self, envs: Any) -> None:
        self.envs = envs

    def reset(self, seed: int) -> Any:
        return self.envs.reset(seed=seed)[0]

    def step(self, actions: np.ndarray) -> Any:
        *rows, self.info = self.envs.step(actions)
        return rows[0]

    def infos(self, key: str) -> list[Any]:
        return [info[key] for info in self.info]


class Shared:
    """The operations; ``adapter`` copies them into a module.

    :param data: the module of buffers.
    :param env: the module of vector environments.
    :param returns: the class with ``compute_nstep_return`` and ``compute_episodic_return``.
    :param constant: makes a policy that always gives one action, mapped from [-1, 1] to a Box, or of a Discrete.
    :param collector: makes a collector of a policy, environments and, perhaps, a buffer.
    """

    def __init__(self, data: Any, env: Any, returns: Any, constant: Any, collector: Any) -> None:
        self.data, self.env, self.returns, self.constant, self.make_collector = data, env, returns, constant, collector

    def replay(
        self, capacity: int, example: Row, *, compact: bool = False, stack: int = 1, time_limits: bool = True
    ) -> Buffer:
        return Buffer(self.data, self.data.ReplayBuffer(capacity, stack_num=stack, ignore_obs_next=compact))

    def prioritized(self, capacity: int, alpha: float, beta: float) -> Buffer:
        return Buffer(self.data, self.data.PrioritizedReplayBuffer(capacity, alpha=alpha, beta=beta))

    def sum_tree(self, leaves: np.ndarray) -> Tree:
        return Tree(self.data, leaves)

    def her(self, capacity: int, example: Row, reward: Any, episode_length: int) -> Buffer:
        return Buffer(self.data, self.data.HERReplayBuffer(capacity, reward, horizon=episode_length, future_k=8))

    def gae(
        self, rew: Any, value: Any, value_next: Any, terminated: Any, truncated: Any, gamma: float, lam: float
    ) -> Any:
        steps, envs = rew.shape
        buffer = self.data.VectorReplayBuffer(steps * envs, envs)
        for step in range(steps):
            columns = {"rew": rew[step], "terminated": terminated[step], "truncated": truncated[step]}
            zeros = {key: np.zeros(envs) for key in ("obs", "act", "obs_next")}
            buffer.add(self.data.Batch(**columns, **zeros, info=[{}] * envs), buffer_ids=np.arange(envs))
        batch, index = buffer.sample(0)
        flat = [torch.as_tensor(array.T.ravel()) for array in (value_next, value)]
        _, advantage = self.returns.compute_episodic_return(batch, buffer, index, *flat, gamma, lam)
        return np.asarray(advantage).reshape(envs, steps).T

    def gae_without_values(
        self, rew: Any, value_next: Any, terminated: Any, truncated: Any, gamma: float, lam: float
    ) -> Any:
        buffer = self.data.ReplayBuffer(len(rew))
        for step in range(len(rew)):
            self_row = Row(np.zeros(1), 0, rew[step], bool(terminated[step]), bool(truncated[step]), np.zeros(1))
            Buffer(self.data, buffer).add(self_row)
        batch, index = buffer.sample(0)
        values = torch.as_tensor(value_next)
        return self.returns.compute_episodic_return(batch, buffer, index, values, None, gamma, lam)[1]

    def nstep(self, capacity: int, rows: list[Row], n_step: int, gamma: float, value: Any, prioritized: bool) -> Any:
        buffer = self.prioritized(capacity, 1.0, 1.0) if prioritized else self.replay(capacity, rows[0])
        for row in rows:
            buffer.add(row)

        def target_q(inner: Any, last: Any) -> torch.Tensor:
            return torch.as_tensor(value(inner[last].obs_next))

        batch, index = buffer.buffer.sample(40 * capacity)
        obs = batch.obs
        batch = self.returns.compute_nstep_return(batch, buffer.buffer, index, target_q, gamma=gamma, n_step=n_step)
        return zip(obs, batch.returns.flatten(), strict=True)

    # -- environments

    def vector(self, makers: list[Any], workers: bool) -> Vector:
        return Vector((self.env.SubprocVectorEnv if workers else self.env.DummyVectorEnv)(makers))

    def step_without_reset(self) -> Any:
        import gymnasium as gym

        return self.env.DummyVectorEnv([lambda: gym.make("CartPole-v1")] * 2).step([0, 0])[1]

    def first_observations(self, seed: int, envs: int) -> Any:
        from bench.museum.operations.scripted import Starts

        vector = self.env.DummyVectorEnv([Starts] * envs)
        vector.seed(seed)
        return [np.array(vector.reset()[0]), np.array(vector.reset()[0])]

    def wide_step(self, envs: int) -> Any:
        vector = self.vector([Counter] * envs, False)
        vector.reset(0)
        return vector.step(np.zeros(envs, int))

    def play(self, makers: list[Any], steps: int, mode: str, workers: bool) -> Any:
        if mode:
            raise DoesNotApply("no autoreset modes: the collector resets environments")
        return self.rows_of((self.env.SubprocVectorEnv if workers else self.env.DummyVectorEnv)(makers), steps)

    def rows_of(self, vector: Any, steps: int) -> Any:
        envs = len(vector)
        buffer = self.data.VectorReplayBuffer(envs * (steps + 1), envs)
        self.make_collector(self.constant(Counter(), 0), vector, buffer).collect(n_step=steps * envs)
        return [self.in_order(ring) for ring in buffer.buffers]

    def in_order(self, buffer: Any) -> list[Any]:
        batch, _ = buffer.sample(0)
        columns = (batch.obs, batch.obs_next, batch.rew, batch.terminated, batch.truncated)
        return list(zip(*columns, strict=True))

    def statistics(self, makers: list[Any], steps: int, mode: str) -> Any:
        if mode:
            raise DoesNotApply("no autoreset modes: the collector resets environments")
        return self.collected_statistics(self.env.DummyVectorEnv(makers), steps)

    def collected_statistics(self, vector: Any, steps: int) -> Any:
        buffer = self.data.VectorReplayBuffer(len(vector) * steps, len(vector))
        collector = self.make_collector(self.constant(Counter(), 0), vector, buffer)
        stats = collector.collect(n_step=steps * len(vector))
        return zip(stats.returns, stats.lens, strict=True)

    def mean_return(self, makers: list[Any], episodes: int) -> float:
        collector = self.make_collector(self.constant(Counter(), 0), self.env.DummyVectorEnv(makers), None)
        return float(np.mean(collector.collect(n_episode=episodes).returns))

    def collected(self, makers: list[Any], counts: list[int]) -> Any:
        vector = self.env.DummyVectorEnv(makers)
        buffer = self.data.VectorReplayBuffer(sum(counts) + 1, len(vector))
        collector = self.make_collector(self.constant(Counter(), 0), vector, buffer)
        for count in counts:
            collector.collect(n_step=count)
        return [row[:2] for row in self.in_order(buffer)]

    def random_actions(self, environment: Any, steps: int) -> None:
        vector = self.env.DummyVectorEnv([lambda: environment])
        collector = self.make_collector(self.constant(environment, 0), vector, self.data.VectorReplayBuffer(steps, 1))
        collector.collect(n_step=steps, random=True)

    def extreme_actions(self, environment: Any, steps: int) -> None:
        for value in (-1.0, 1.0):
            vector = self.env.DummyVectorEnv([lambda: environment])
            buffer = self.data.VectorReplayBuffer(steps, 1)
            self.make_collector(self.constant(environment, value), vector, buffer).collect(n_step=steps)

    def map_action(self, space: Any, action: np.ndarray) -> Any:
        environment = type("Environment", (), {"action_space": space, "observation_space": None})
        return self.constant(environment, 0.0).map_action(action[None])[0]

    def frozen(self, offset: float) -> Any:
        training = self.env.VectorEnvNormObs(self.env.DummyVectorEnv([Counter] * 2))
        rms = training.get_obs_rms()
        rms.update(np.random.default_rng(0).normal(offset, 3.0, (1000, 1)))
        evaluation = self.env.VectorEnvNormObs(
            self.env.DummyVectorEnv([lambda: Counter(length=2)]), update_obs_rms=False
        )
        evaluation.set_obs_rms(rms)
        before = np.array(rms.mean), np.array(rms.var)
        evaluation.reset()
        evaluation.step([0])
        final = float(np.ravel(evaluation.step([0])[0])[0])
        expected = (2 - before[0].item()) / np.sqrt(before[1].item())
        same = all(np.array_equal(b, a) for b, a in zip(before, (rms.mean, rms.var), strict=True))
        return {"unchanged": same, "final is normalised": bool(np.isclose(final, expected, rtol=1e-3))}

    def gaussian_noise(self, std: float, count: int) -> Any:
        return self.exploration().GaussianNoise(sigma=std)((count,))

    def exploration(self) -> Any:
        from importlib import import_module

        return import_module(f"{self.data.__name__.split('.')[0]}.exploration")

    def hostile_file(self, folder: Path, payload: Any) -> Any:
        """An HDF5 file of a buffer with an object in it, which both libraries write as a pickle."""
        buffer = self.data.ReplayBuffer(2)
        buffer.add(
            self.data.Batch(
                obs=0,
                act=0,
                rew=0.0,
                terminated=False,
                truncated=False,
                obs_next=1,
                info={},
                policy=self.data.Batch(x=payload),
            )
        )
        path = str(folder / "buffer.hdf5")
        buffer.save_hdf5(path)
        return lambda: self.data.ReplayBuffer.load_hdf5(path)

    def agents_game(self, lives: list[int]) -> Any:
        game, aec = as_aec(lives)
        return game, self.env.PettingZooEnv(aec)


def publish(shared: Shared, names: dict[str, Any]) -> None:
    """Makes the operations functions of an adapter's module, except those that it defines itself."""
    for name in dir(shared):
        if not name.startswith("_") and callable(getattr(shared, name)):
            names.setdefault(name, getattr(shared, name))
