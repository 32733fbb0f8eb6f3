"""The driver of environments in worker processes: rlfast's, Gymnasium's, SB3's or Tianshou's, by ``VARIANT``."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import Any

import gymnasium
import numpy as np

VARIANT = ""
PACKAGES = {"rlfast": "rlfast", "gymnasium": "gymnasium", "sb3": "stable-baselines3", "tianshou": "tianshou"}
IMAGE = (4, 84, 84)


class Task(gymnasium.Env[Any, Any]):
    """An environment whose step only takes time, and whose episodes never end.

    :param seconds: processor time of a step.
    :param image: whether observations are stacks of frames.
    """

    def __init__(self, seconds: float, image: bool) -> None:
        self.observation_space = (
            gymnasium.spaces.Box(0, 255, IMAGE, np.uint8) if image else gymnasium.spaces.Box(-1, 1, (4,), np.float32)
        )
        self.action_space = gymnasium.spaces.Discrete(2)
        self.seconds = seconds
        self.obs = np.zeros(self.observation_space.shape or (), self.observation_space.dtype)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:  # noqa: ARG002
        return self.obs, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # noqa: ARG002
        if self.seconds:
            until = time.perf_counter() + self.seconds
            while time.perf_counter() < until:
                pass
        return self.obs, 1.0, False, False, {}


def versions() -> dict[str, str]:
    package = PACKAGES[VARIANT.split(maxsplit=1)[0]]
    return {package: version(package), "numpy": np.__version__}


def make(fns: list[Callable[[], Any]], workers: int) -> Any:
    """Returns the fastest vector environment of the library; some have one environment for each process."""
    if VARIANT == "sb3":
        from stable_baselines3.common.vec_env import SubprocVecEnv

        return SubprocVecEnv(fns)
    if VARIANT == "tianshou":
        from tianshou.env import ShmemVectorEnv

        return ShmemVectorEnv(fns)
    if VARIANT == "gymnasium async":
        return gymnasium.vector.AsyncVectorEnv(fns, shared_memory=True)
    if VARIANT == "gymnasium sync":
        return gymnasium.vector.SyncVectorEnv(fns)
    from rlfast.env import DummyVectorEnv, SubprocVectorEnv

    if VARIANT == "rlfast in-process":
        return DummyVectorEnv(fns, autoreset_mode="SAME_STEP")
    placement = "auto" if VARIANT == "rlfast auto" else "process"
    return SubprocVectorEnv(fns, autoreset_mode="SAME_STEP", num_workers=workers, placement=placement)


def vector_step(num_envs: int, workers: int, seconds: float, image: bool) -> dict[str, Any]:
    envs = make([partial(Task, seconds, image)] * num_envs, workers)
    envs.reset()
    actions = np.zeros(num_envs, np.int64)

    def step(count: int) -> None:
        for _ in range(count):
            envs.step(actions)

    step(100)
    return {"step": step}
