"""The driver of Atari: vector environments with the DeepMind pipeline, and kernels for screens.

``VARIANT`` selects the library: ``rlfast``, ``envpool``, ``ale_py`` or ``sb3``.
"""

from __future__ import annotations

import time
from importlib.metadata import version
from itertools import cycle, islice
from typing import Any

import numpy as np

VARIANT = ""
PACKAGES = {"ale_py": "ale-py", "sb3": "stable-baselines3", "opencv": "opencv-python-headless"}
THREADS = (1, 2, 4)
"""Numbers of threads that EnvPool may have; it takes the quickest."""


def versions() -> dict[str, str]:
    package = PACKAGES.get(VARIANT, VARIANT)
    return {package: version(package), "numpy": np.__version__}


def make(num_envs: int) -> Any:
    """Returns environments of Pong with four frames, each the greater of the last two of four screens."""
    if VARIANT == "rlfast":
        from rlfast.env.atari import make_atari_vec

        return make_atari_vec("Pong", num_envs, autoreset_mode="NEXT_STEP")
    if VARIANT == "envpool":
        return quickest(num_envs)
    if VARIANT == "ale_py":
        from ale_py.vector_env import AtariVectorEnv

        return AtariVectorEnv("pong", num_envs)
    import ale_py
    import gymnasium
    from stable_baselines3.common.env_util import make_atari_env
    from stable_baselines3.common.vec_env import SubprocVecEnv, VecFrameStack

    gymnasium.register_envs(ale_py)
    workers = {"vec_env_cls": SubprocVecEnv, "vec_env_kwargs": {"start_method": "fork"}}  # which knows the games
    return VecFrameStack(make_atari_env("PongNoFrameskip-v4", num_envs, **workers), 4)


def quickest(num_envs: int) -> Any:
    """Returns EnvPool's environments with that one of :data:`THREADS` that steps quickest."""
    import envpool

    def seconds(envs: Any) -> float:
        envs.reset()
        actions = np.zeros(num_envs, np.int32)
        start = time.perf_counter()
        for _ in range(200):
            envs.step(actions)
        return time.perf_counter() - start

    options = {"num_envs": num_envs, "seed": 0, "reward_clip": True, "episodic_life": True, "use_fire_reset": True}
    made = [envpool.make_gymnasium("Pong-v5", num_threads=threads, **options) for threads in THREADS]
    return min(made, key=seconds)


def atari_step(num_envs: int) -> dict[str, Any]:
    """Prepares steps with random actions and automatic resets."""
    envs = make(num_envs)
    envs.reset()
    rounds = np.random.default_rng(0).integers(0, 6, (64, num_envs)).astype(np.int32)
    actions = cycle(list(rounds))

    def step(count: int) -> None:
        for action in islice(actions, count):
            envs.step(action)

    step(200)
    return {"step": step}


def screens() -> dict[str, Any]:
    """Prepares the way of a coloured screen to a frame: in grey, resized to 84x84."""
    screen = np.random.default_rng(0).integers(0, 256, (210, 160, 3), np.uint8)
    return {"resize": resize_by_opencv(screen) if VARIANT == "opencv" else resize(screen)}


def resize(screen: Any) -> Any:
    from rlfast._core import AreaResize, grey

    kernel, frame, luminance = AreaResize((210, 160), (84, 84)), np.empty((84, 84), np.uint8), screen[..., 0].copy()

    def run(count: int) -> None:
        for _ in range(count):
            grey(screen, luminance)
            kernel(luminance, frame)

    return run


def resize_by_opencv(screen: Any) -> Any:
    import cv2

    cv2.setNumThreads(1)

    def run(count: int) -> None:
        for _ in range(count):
            cv2.resize(cv2.cvtColor(screen, cv2.COLOR_RGB2GRAY), (84, 84), interpolation=cv2.INTER_AREA)

    return run
