"""Gymnasium's vector environments and their wrappers."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import NormalizeObservation, NormalizeReward, RecordEpisodeStatistics

from bench.museum.operations.scripted import Counter, Starts

MODES = {
    "": AutoresetMode.NEXT_STEP,
    "next": AutoresetMode.NEXT_STEP,
    "same": AutoresetMode.SAME_STEP,
    "disabled": AutoresetMode.DISABLED,
}


def versions() -> dict[str, str]:
    return {"gymnasium": gym.__version__, "numpy": np.__version__}


def make(makers: list[Any], mode: str = "", workers: bool = False) -> Any:
    return (AsyncVectorEnv if workers else SyncVectorEnv)(makers, autoreset_mode=MODES[mode])


def play(makers: list[Any], steps: int, mode: str, workers: bool) -> Any:
    """Rows as its documentation of the autoreset modes makes them; steps that only reset are none."""
    envs = make(makers, mode, workers)
    obs, _ = envs.reset()
    obs = np.array(obs)
    rows: list[list[Any]] = [[] for _ in makers]
    resetting = np.zeros(len(makers), bool)
    while min(map(len, rows)) < steps:
        after, rew, terminated, truncated, info = envs.step(np.zeros(len(makers), int))
        done = terminated | truncated
        for env in range(len(makers)):
            if not resetting[env]:
                last = info["final_obs"][env] if mode == "same" and done[env] else after[env]
                rows[env].append((obs[env], np.array(last), rew[env], bool(terminated[env]), bool(truncated[env])))
        obs = np.array(after)
        if MODES[mode] is AutoresetMode.NEXT_STEP:
            resetting = done
        if mode == "disabled" and done.any():
            obs = np.array(envs.reset(options={"reset_mask": done})[0])
    return [each[:steps] for each in rows]


def step_after_the_end(makers: list[Any], steps: int) -> Any:
    envs = make(makers, "disabled")
    envs.reset()
    for _ in range(steps):
        obs, *_ = envs.step(np.zeros(len(makers), int))
    return obs.ravel().tolist()


def statistics(makers: list[Any], steps: int, mode: str) -> Any:
    envs = RecordEpisodeStatistics(make(makers, mode))
    envs.reset()
    found: list[Any] = []
    rows, resetting = np.zeros(len(makers), int), np.zeros(len(makers), bool)
    while rows.min() < steps:
        _, _, terminated, truncated, info = envs.step(np.zeros(len(makers), int))
        rows += ~resetting
        ended = np.flatnonzero((terminated | truncated) & (rows <= steps))
        found += [(info["episode"]["r"][env], info["episode"]["l"][env]) for env in ended]
        resetting = (terminated | truncated) if MODES[mode] is AutoresetMode.NEXT_STEP else resetting
    return found


def rewards_seen(makers: list[Any], steps: int, mode: str) -> float:
    envs = NormalizeReward(make(makers, mode))
    before = envs.return_rms.count
    envs.reset()
    for _ in range(steps):
        envs.step(np.zeros(len(makers), int))
    return float(envs.return_rms.count - before)


class Vector:
    def __init__(self, envs: Any) -> None:
        self.envs = envs

    def reset(self, seed: int) -> Any:
        return self.envs.reset(seed=seed)[0]

    def step(self, actions: np.ndarray) -> Any:
        obs, *_, self.info = self.envs.step(actions)
        return obs

    def infos(self, key: str) -> list[Any]:
        return list(self.info[key])


def vector(makers: list[Any], workers: bool) -> Vector:
    return Vector(make(makers, "", workers))


def step_without_reset() -> Any:
    return SyncVectorEnv([lambda: gym.make("CartPole-v1")] * 2).step(np.zeros(2, int))[1]


def first_observations(seed: int, envs: int) -> Any:
    vectors = make([Starts] * envs)
    return [np.array(vectors.reset(seed=seed)[0]), np.array(vectors.reset()[0])]


def own_starts(tasks: list[str], envs: int) -> dict[str, Any]:
    found = {}
    for task in set(tasks) & set(gym.registry):
        vectors = gym.make_vec(task, num_envs=envs)
        found[task] = np.concatenate([np.array(vectors.reset()[0]) for _ in range(3)])
    return found


def limited_cartpole(envs: int, limit: int) -> Any:
    return CartPoleVectorEnv(envs, max_episode_steps=limit)


def wide_step(envs: int) -> Any:
    vectors = make([Counter] * envs)
    vectors.reset()
    return vectors.step(np.zeros(envs, int))[0]


def random_actions(environment: Any, steps: int) -> None:
    random_actions_of_a_mode(environment, steps, "next")


def random_actions_of_a_mode(environment: Any, steps: int, mode: str) -> None:
    vectors = make([lambda: environment], mode)
    vectors.reset()
    while environment.seen < steps:
        vectors.step(vectors.action_space.sample())


class Wide(Counter):
    """Its observations are rows that were given."""

    def __init__(self, size: int) -> None:
        super().__init__(length=10**9)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (size,), np.float64)
        self.row = np.zeros(size)

    def observe(self) -> Any:
        return self.row.copy(), {}


class Normalizer:
    """NormalizeObservation over as many environments as there are rows."""

    def __init__(self, size: int) -> None:
        self.size, self.rms = size, None

    def wrapped(self, rows: np.ndarray) -> Any:
        environments = [Wide(self.size) for _ in rows]
        for environment, row in zip(environments, rows, strict=True):
            environment.row = row
        envs = NormalizeObservation(make([lambda environment=environment: environment for environment in environments]))
        if self.rms is not None:
            envs.obs_rms = self.rms
        return envs

    def update(self, rows: np.ndarray) -> None:
        envs = self.wrapped(rows)
        envs.reset()
        self.rms = envs.obs_rms

    def normalize(self, rows: np.ndarray) -> Any:
        envs = self.wrapped(rows)
        envs.update_running_mean = False
        return envs.reset()[0]

    def moments(self) -> tuple[Any, Any]:
        return self.rms.mean, self.rms.var


def normalizer(size: int) -> Normalizer:
    return Normalizer(size)


def frozen(offset: float) -> Any:
    envs = NormalizeObservation(make([partial(Counter, length=2)]))
    envs.obs_rms.update(np.random.default_rng(0).normal(offset, 3.0, (1000, 1)))
    envs.update_running_mean = False
    before = np.array(envs.obs_rms.mean), np.array(envs.obs_rms.var)
    envs.reset()
    envs.step(np.zeros(1, int))
    obs, *_ = envs.step(np.zeros(1, int))
    final = float(obs[0, 0])
    expected = (2 - before[0].item()) / np.sqrt(before[1].item())
    same = np.array_equal(before[0], envs.obs_rms.mean) and np.array_equal(before[1], envs.obs_rms.var)
    return {"unchanged": bool(same), "final is normalised": bool(np.isclose(final, expected, rtol=1e-3))}


class Rescaled(Counter):
    def __init__(self, space: Any) -> None:
        super().__init__()
        self.action_space = space

    def step(self, action: Any) -> Any:
        self.last = action
        return super().step(action)


def map_action(space: Any, action: np.ndarray) -> Any:
    """ClipAction inside of RescaleAction would clip the environment's actions; outside it clips those of the policy."""
    environment = Rescaled(space)
    wrapped = gym.wrappers.ClipAction(gym.wrappers.RescaleAction(environment, np.float32(-1), np.float32(1)))
    wrapped.reset()
    wrapped.step(action)
    return environment.last


def extreme_actions(environment: Any, steps: int) -> None:
    wrapped = gym.wrappers.RescaleAction(environment, np.float32(-1), np.float32(1))
    for value in (-1.0, 1.0):
        wrapped.reset()
        for _ in range(steps):
            wrapped.step(np.full(environment.action_space.shape, value, np.float32))
