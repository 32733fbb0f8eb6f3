"""rlox, whose rows are flat and of float32."""

from __future__ import annotations

from importlib.metadata import version
from itertools import count as counting
from typing import Any

import gymnasium as gym
import numpy as np
import rlox
import torch
from rlox.algorithms.ppo import PPO
from rlox.algorithms.trpo import TRPO
from rlox.collectors import RolloutCollector
from rlox.exploration import GaussianNoise
from rlox.gym_vec_env import GymVecEnv
from rlox.networks import polyak_update
from rlox.vec_normalize import VecNormalize
from torch import nn

from bench.museum.adapters import DoesNotApply, Slots
from bench.museum.operations.rows import Row
from bench.museum.operations.scripted import Counter, Shown, Starts, register

COMPILED = True
SEEDS, IDS = counting(1), counting(1)


def versions() -> dict[str, str]:
    return {"rlox": version("rlox"), "numpy": np.__version__, "torch": torch.__version__, "gymnasium": gym.__version__}


def flat(act: Any) -> Any:
    """A number as the array that rows have; arrays are given as they are."""
    return np.array([act], np.float32) if isinstance(act, (int, float)) else np.atleast_1d(act)


class Buffer(Slots):
    length = 0

    def __init__(self, buffer: Any, capacity: int) -> None:
        self.buffer, self.capacity = buffer, capacity

    def add(self, row: Row) -> None:
        if isinstance(row.obs, dict) or np.ndim(row.obs) != 1:
            raise DoesNotApply("rows are flat")
        self.buffer.push(row.obs, flat(row.act), row.rew, row.terminated, row.truncated, row.obs_next)

    def draw(self, count: int) -> dict[str, Any]:
        return self.buffer.sample(count, seed=next(SEEDS))

    def sample(self, count: int) -> dict[str, Any]:
        """Several samples, since one has at most as many rows as the buffer."""
        rows = max(1, min(count, self.size()))
        parts = [self.draw(rows) for _ in range(-(-count // rows))]
        batch = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
        names = {"obs": "obs", "actions": "act", "rewards": "rew", "terminated": "terminal", "next_obs": "obs_next"}
        names |= {"indices": "index", "weights": "weight"}
        return {ours: batch[theirs][:count] for theirs, ours in names.items() if theirs in batch}

    def update(self, index: Any, priorities: Any) -> None:
        self.buffer.update_priorities(np.asarray(index, np.uint64), np.asarray(priorities, np.float64))

    def size(self) -> int:
        return len(self.buffer)


def replay(capacity: int, example: Row, *, compact: bool = False, stack: int = 1, time_limits: bool = True) -> Buffer:
    if compact or stack > 1:
        raise DoesNotApply("both observations are stored, and no stacks are made")
    return Buffer(rlox.ReplayBuffer(capacity, np.size(example.obs), np.size(example.act)), capacity)


def prioritized(capacity: int, alpha: float, beta: float) -> Buffer:
    return Buffer(rlox.PrioritizedReplayBuffer(capacity, 1, 1, alpha=alpha, beta=beta), capacity)


class Windows:
    def __init__(self, capacity: int, length: int) -> None:
        self.buffer, self.length = rlox.SequenceReplayBuffer(capacity, 2, 1), length

    def add(self, row: Row) -> None:
        self.buffer.push(row.obs, row.obs_next, flat(row.act), row.rew, row.terminated, row.truncated)

    def sample(self, count: int) -> Any:
        return list(self.buffer.sample_sequences(count, self.length, seed=next(SEEDS))["obs"])


def sequences(capacity: int, length: int) -> Windows:
    return Windows(capacity, length)


class Goals:
    """Observation, achieved and desired goal in one row."""

    def __init__(self, capacity: int) -> None:
        self.buffer = rlox.HERBuffer(capacity, 5, 1, 2, 1, 3, k=8)

    def add(self, row: Row) -> None:
        keys = ("observation", "achieved_goal", "desired_goal")
        obs, after = (np.concatenate([each[key] for key in keys]) for each in (row.obs, row.obs_next))
        self.buffer.push(obs, after, flat(row.act), row.rew, row.terminated, row.truncated)

    def sample(self, count: int) -> dict[str, Any]:
        parts = [self.buffer.sample(5, seed=next(SEEDS)) for _ in range(count // 5)]
        obs, after, rew = (np.concatenate([part[key] for part in parts]) for key in ("obs", "next_obs", "rewards"))
        return {
            "obs": {"achieved_goal": obs[:, 1:3], "desired_goal": obs[:, 3:]},
            "obs_next": {"achieved_goal": after[:, 1:3]},
            "rew": rew,
        }


def her(capacity: int, example: Row, reward: Any, episode_length: int) -> Goals:
    return Goals(capacity)


# -- environments, which GymVecEnv makes by their id


def vectors(makers: list[Any]) -> GymVecEnv:
    waiting = list(makers)
    id = register(f"Rlox{next(IDS)}", lambda: waiting.pop(0)())  # noqa: PLW0108
    return GymVecEnv(id, len(makers))


def same_step(mode: str) -> None:
    if mode not in {"", "same"}:
        raise DoesNotApply("environments are always reset in the step that ends an episode")


def play(makers: list[Any], steps: int, mode: str, workers: bool) -> Any:
    same_step(mode)
    if workers:
        raise DoesNotApply("no worker processes")
    envs = vectors(makers)
    obs, rows = envs.reset_all(), [[] for _ in makers]
    for _ in range(steps):
        result = envs.step_all(np.zeros(len(makers), int))
        for env in range(len(makers)):
            terminated, truncated = bool(result["terminated"][env]), bool(result["truncated"][env])
            after = result["terminal_obs"][env] if terminated or truncated else result["obs"][env]
            rows[env].append((obs[env], np.array(after), result["rewards"][env], terminated, truncated))
        obs = result["obs"].copy()
    return rows


def statistics(makers: list[Any], steps: int, mode: str) -> Any:
    same_step(mode)
    envs = vectors(makers)
    envs.reset_all()
    for _ in range(steps):
        envs.step_all(np.zeros(len(makers), int))
    return zip(envs.episode_rewards, envs.episode_lengths, strict=True)


def first_observations(seed: int, envs: int) -> Any:
    vector = rlox.VecEnv(envs, seed, "CartPole-v1")
    return [np.array(vector.reset_all()), np.array(vector.reset_all())]


def own_starts(tasks: list[str], envs: int) -> dict[str, Any]:
    found = {}
    for task in set(tasks) & {"CartPole-v1", "Pendulum-v1"}:
        vector = rlox.VecEnv(envs, 0, task)
        found[task] = np.concatenate([vector.reset_all() for _ in range(3)])
    return found


def wide_step(envs: int) -> Any:
    vector = rlox.VecEnv(envs, 0, "CartPole-v1")
    vector.reset_all()
    return vector.step_all(np.zeros(envs, np.uint32))["obs"]


# -- learning


class Given(nn.Module):
    """A critic that gives the observation itself."""

    def get_value(self, obs: torch.Tensor) -> torch.Tensor:
        return obs[:, 0]

    def get_action_and_logprob(self, obs: torch.Tensor) -> Any:
        return torch.zeros(len(obs), dtype=torch.int64), torch.zeros(len(obs))


def gae(rew: Any, value: Any, value_next: Any, terminated: Any, truncated: Any, gamma: float, gae_lambda: float) -> Any:
    """What its collector computes for a roll-out in which the critic gives the observation."""
    steps, envs = rew.shape
    columns = (rew, value, value_next, terminated, truncated)
    environments = vectors([lambda env=env: Shown(*(column[:, env] for column in columns)) for env in range(envs)])
    collector = RolloutCollector("", envs, gamma=gamma, gae_lambda=gae_lambda, env=environments)
    return collector.collect(Given(), steps).advantages.reshape(steps, envs).numpy()


def ppo_stays_finite(steps: int, batch_size: int) -> bool:
    id = register("RloxStarts", Starts)
    model = PPO(id, n_envs=1, n_steps=steps, n_minibatches=-(-steps // batch_size), n_epochs=2)
    model.train(steps)
    return all(bool(torch.isfinite(weight).all()) for weight in model.policy.parameters())


def trpo_kl(limit: float) -> float:
    torch.manual_seed(0)
    return float(TRPO("CartPole-v1", seed=0, max_kl=limit, n_envs=4, n_steps=64).train(256)["kl"])


class Normalizer:
    """VecNormalize without an environment to step."""

    def __init__(self, size: int) -> None:
        self.envs = VecNormalize(vectors([Counter]), norm_reward=False, obs_dim=size)
        self.envs.env.reset_all = lambda: self.rows
        self.rows = np.zeros((1, size), np.float32)

    def update(self, rows: np.ndarray) -> None:
        self.rows = rows
        self.envs.reset_all()

    def normalize(self, rows: np.ndarray) -> Any:
        return self.envs.normalize_obs(rows)

    def moments(self) -> tuple[Any, Any]:
        found = self.envs.get_obs_rms()
        return found["mean"], found["var"]


def normalizer(size: int) -> Normalizer:
    return Normalizer(size)


def frozen(offset: float) -> Any:
    inner = vectors([lambda: Counter(length=2)])
    envs = VecNormalize(inner, norm_reward=False)
    reset, inner.reset_all = inner.reset_all, lambda: np.random.default_rng(0).normal(offset, 3.0, (1000, 1))
    envs.reset_all()
    inner.reset_all, envs.training = reset, False
    before = envs.get_obs_rms()
    start = float(inner.reset_all()[0, 0])
    envs.step_all(np.zeros(1, int))
    final = float(envs.step_all(np.zeros(1, int))["terminal_obs"][0][0])
    after = envs.get_obs_rms()
    expected = (start + 2 - before["mean"].item()) / np.sqrt(before["var"].item())
    same = all(np.array_equal(before[key], after[key]) for key in before)
    return {"unchanged": same, "final is normalised": bool(np.isclose(np.clip(expected, -10, 10), final, rtol=1e-3))}


def gaussian_noise(std: float, count: int) -> Any:
    return GaussianNoise(sigma=std, seed=0).select_action(np.zeros(count), 0, 1)


def polyak(target: nn.Module, source: nn.Module, tau: float) -> None:
    polyak_update(source, target, tau)
