"""Decides whether environments run faster in this process or in worker processes."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from multiprocessing.context import BaseContext
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from rlfast.env.backends.base import Backend
from rlfast.env.backends.in_process import InProcess
from rlfast.env.errors import EnvFailure
from rlfast.env.process.pool import ProcessBackend
from rlfast.env.spaces.collation import collate_as
from rlfast.utils.runtime.cores import cores

EnvFn = Callable[[], gym.Env[Any, Any]]

_BUDGET = 0.02  # seconds that a measurement takes
_PATIENCE = 10.0  # seconds after which a step is considered to hang
_GAIN = 0.9  # worker processes are chosen if they take at most this fraction of the time in this process
_FEW = 4  # environments that are made in this process to measure their steps


def choose(
    env_fns: Sequence[EnvFn], num_workers: int | None = None, context: str | BaseContext | None = None
) -> tuple[str, str]:
    """Measures a step of the environments in worker processes and in this process.

    The workers come first, so that environments that crash or hang do so there. Without a clear gain, the environments
    run in this process. Environments that cannot be measured run in worker processes, and those that cannot be sent to
    other processes run in this one.

    :param env_fns: one callable per environment.
    :param num_workers: the number of worker processes; None for one per core.
    :param context: how workers are started.
    :return: ``"in-process"`` or ``"process"``, and the reason in one line.
    """
    count, few = len(env_fns), env_fns[:_FEW]
    if min(count, num_workers or cores(), cores()) < 2:
        return "in-process", "there is nothing to share between processes"
    options: dict[str, Any] = {"num_workers": num_workers, "context": context, "step_timeout": _PATIENCE}
    mode = AutoresetMode.NEXT_STEP
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the environments warn again where they run
            shared = _step_time(ProcessBackend(env_fns, autoreset_mode=mode, strict=False, **options))
            alone = _step_time(InProcess(few, mode, as_space=None)) * count / len(few)
    except Exception as error:
        if isinstance(error, TypeError) and not isinstance(error, EnvFailure):  # the functions cannot be sent
            return "in-process", str(error)
        return "process", f"the environments could not be measured: {type(error).__name__}: {error}"
    placement = "process" if shared < _GAIN * alone else "in-process"
    return placement, f"a step takes {alone * 1e6:.3g} us in this process, and {shared * 1e6:.3g} us in workers"


def _step_time(backend: Backend) -> float:
    """Returns the median duration of a step of all environments of a backend, in seconds, and closes it."""
    try:
        ids, space = np.arange(backend.num_envs), backend.single_action_space
        space.seed(0)
        actions = [collate_as(space, [space.sample() for _ in ids]) for _ in range(4)]
        backend.reset(ids, [0] * len(ids), None)
        took: list[float] = []
        while len(took) < 9 or sum(took) < _BUDGET:
            start = time.perf_counter()
            backend.send(actions[len(took) % len(actions)], ids)
            backend.recv(len(ids))
            took.append(time.perf_counter() - start)
    finally:
        backend.close()
    return float(np.median(took))
