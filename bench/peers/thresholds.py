"""Training until a threshold of the return, with a new seed for each run; tests count, imports and compilation do not.

Tianshou 1.0 trains as its scripts for these environments do (``test_dqn.py``, ``test_ppo.py``,
``test_sac_with_il.py``), which test with 100 (SAC: 10) episodes after an epoch or a good collect. Its TD3 has the
numbers of the script for SAC.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import count
from typing import Any

import gymnasium
import numpy as np
import torch

from bench.peers import training

RETURNS = {"dqn": 475.0, "ppo": 475.0, "pqn": 475.0, "sac": -200.0, "td3": -200.0}
CAP = 900.0
"""Seconds after which a run counts as failed."""
Run = Callable[[int], bool]
"""A function that trains with a seed, and returns whether the threshold was reached."""


def timed(run: Run) -> dict[str, Any]:
    """Returns the operation: a run with the next seed, whose time is infinite if it fails."""
    seeds: Iterator[int] = count()

    def reach(times: int) -> float | None:
        reached = True
        for _ in range(times):
            seed = next(seeds)
            torch.manual_seed(seed)
            np.random.seed(seed)
            reached &= run(seed)
        return None if reached else float("inf")

    return {"threshold": reach}


SETTINGS: dict[str, dict[str, Any]] = {
    "dqn": {"step_per_epoch": 10_000, "step_per_collect": 10, "update_per_step": 0.1, "batch_size": 64},
    "ppo": {"step_per_epoch": 50_000, "step_per_collect": 2000, "repeat_per_collect": 10, "batch_size": 64},
    "sac": {"step_per_epoch": 24_000, "step_per_collect": 10, "update_per_step": 0.1, "batch_size": 128},
}
SETTINGS["td3"] = SETTINGS["sac"]
TRAIN_ENVS = {"dqn": 10, "ppo": 20, "sac": 10, "td3": 10}
TEST_ENVS = {"dqn": 100, "ppo": 100, "sac": 10, "td3": 10}


class OutOfTime(Exception):
    """Stops a trainer after the time limit."""


def tianshou(algorithm: str) -> dict[str, Any]:
    data, env, trainers = (import_module(f"tianshou.{name}") for name in ("data", "env", "trainer"))
    threshold, task = RETURNS[algorithm], training.TASKS[algorithm]
    actor_critic = {"hidden": 128, "lr": 1e-3, "estimation_step": 3}
    options: dict[str, Any] = actor_critic if algorithm in training.ACTORS else {}

    def run(seed: int) -> bool:
        policy = getattr(training, algorithm)("tianshou", training.plain_adam, **options)
        train, test = (
            env.DummyVectorEnv([lambda: gymnasium.make(task)] * envs[algorithm]) for envs in (TRAIN_ENVS, TEST_ENVS)
        )
        train.seed(seed)
        test.seed(seed)
        buffer = data.VectorReplayBuffer(20_000, len(train))
        collector = data.Collector(policy, train, buffer, exploration_noise=True)
        if algorithm == "dqn":
            policy.set_eps(0.1)
            collector.collect(n_step=640)
        end = time.perf_counter() + CAP

        def watch(_: int, env_step: int | None) -> None:
            if time.perf_counter() > end:
                raise OutOfTime
            if algorithm == "dqn":  # epsilon is halved after 10,000 steps
                policy.set_eps(0.1 * (1 - 0.5 * min(max((env_step or 0) - 10_000, 0) / 40_000, 1)))

        trainer = (trainers.OnpolicyTrainer if algorithm == "ppo" else trainers.OffpolicyTrainer)(
            policy=policy,
            train_collector=collector,
            test_collector=data.Collector(policy, test),
            max_epoch=1000,
            episode_per_test=TEST_ENVS[algorithm],
            train_fn=watch,
            test_fn=(lambda *_: policy.set_eps(0.05)) if algorithm == "dqn" else None,
            stop_fn=lambda mean: bool(mean >= threshold),
            show_progress=False,
            verbose=False,
            **SETTINGS[algorithm],
        )
        try:
            trainer.run()
        except OutOfTime:
            return False
        return True

    return timed(run)


def rlfast(algorithm: str) -> dict[str, Any]:
    """Prepares the presets of ``rlfast train``, with run folders and checkpoints."""
    import tempfile
    from dataclasses import replace
    from pathlib import Path

    from rlfast.experiment import ALGORITHMS
    from rlfast.experiment.run import train

    preset = ALGORITHMS[algorithm].preset(training.TASKS[algorithm])

    def run(seed: int) -> bool:
        with tempfile.TemporaryDirectory() as folder:
            done = train(replace(preset, seed=seed, run_dir=Path(folder, "run"), progress=False))
        return done.reached

    return timed(run)
