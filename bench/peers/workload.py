"""The data for all libraries: the same bytes from the same seeds, made before anything is timed.

Letters of shapes: N rows, E environments, D observation size, A action size.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

FRAME = (84, 84)
STACK = 4
ATARI_PERIOD = 64  # vector steps after which the frames of an environment repeat
ATARI_EPISODE = 512  # steps between two ends of one environment


Info = Callable[[Any], Any]


class Transition(NamedTuple):
    """Transitions: rows ``[N, ...]``, one row, or one vector step ``[E, ...]``."""

    obs: Any
    act: Any
    rew: Any
    terminated: Any
    truncated: Any
    obs_next: Any


def chunks(
    rows: int, obs_dim: int, act_dim: int, *, dtype: str = "float32", episode: int = 200, size: int = 10_000
) -> Iterator[Transition]:
    """Returns the transitions of one environment in blocks. The next observation of a row is the next row's
    observation,
    except at the ends of episodes (every second one a truncation), where it is the true final observation.

    :param act_dim: length of the action, a float32 vector; 0 for a discrete action (int64).
    """
    rng = np.random.default_rng(0)
    for start in range(0, rows, size):
        n = min(size, rows - start)
        path = rng.random((n + 1, obs_dim), dtype=np.float32).astype(dtype)
        obs_next = path[1:].copy()
        number = np.arange(start, start + n)
        end = number % episode == episode - 1
        end[-1] = True
        obs_next[end] += 1
        truncated = end & (number // episode % 2 == 1)
        act = rng.integers(0, 2, n) if act_dim == 0 else rng.random((n, act_dim), dtype=np.float32)
        yield Transition(path[:-1], act, rng.random(n), end & ~truncated, truncated, obs_next)


def single_steps(
    rows: int, obs_dim: int, act_dim: int, *, dtype: str = "float32", episode: int = 200
) -> list[Transition]:
    """Returns the same transitions one row at a time, with the types that a Gymnasium environment returns."""
    return [
        Transition(obs.copy(), act, float(rew), bool(terminated), bool(truncated), obs_next.copy())
        for block in chunks(rows, obs_dim, act_dim, dtype=dtype, episode=episode)
        for obs, act, rew, terminated, truncated, obs_next in zip(*block, strict=True)
    ]


def vector_steps(steps: int, envs: int, obs_dim: int, act_dim: int, *, episode: int = 200) -> list[Transition]:
    """Returns ``steps`` steps of ``envs`` environments, whose episodes end at different times."""
    rng = np.random.default_rng(0)
    out = []
    obs = rng.random((envs, obs_dim), dtype=np.float32)
    for step in range(steps):
        end = (step + np.arange(envs) * (episode // envs)) % episode == episode - 1
        if step == steps - 1:  # the stream may start again from here
            end[:] = True
        truncated = end & (np.arange(envs) % 2 == 1)
        obs_next = rng.random((envs, obs_dim), dtype=np.float32)
        act = rng.integers(0, 2, envs) if act_dim == 0 else rng.random((envs, act_dim), dtype=np.float32)
        out.append(Transition(obs, act, rng.random(envs), end & ~truncated, truncated, obs_next))
        obs = np.where(end[:, None], rng.random((envs, obs_dim), dtype=np.float32), obs_next)
    return out


def infos(envs: int | None) -> dict[str, Info]:
    """Returns how infos are made: nothing, as Tianshou's scripts pass it, numbers, and a dict for each environment."""
    if envs is None:
        return {"empty info": lambda batch: batch(), "info of numbers": lambda _: {"lives": 3, "score": 1.5}}
    dicts = np.array([{"env_id": env, "lives": 3, "score": 1.5} for env in range(envs)], object)
    return {"empty info": lambda batch: batch(), "dicts": lambda _: dicts}


def atari_steps(envs: int) -> list[Transition]:
    """Returns ``ATARI_EPISODE`` vector steps with 4-stacks of 84x84 frames, which can be repeated any number of times.

    An environment's frame at step t is one of ``ATARI_PERIOD`` random frames; the stack slides by one frame a step,
    an episode's last step has a final frame of its own, and the stack after a reset repeats the first frame, as
    frame-stacking wrappers do. Most arrays are shared between steps, so that the stream is about as hot in the cache
    as one that an emulator has just written.
    """
    rng = np.random.default_rng(0)
    frames_ET = rng.integers(0, 256, (envs, ATARI_PERIOD, *FRAME), dtype=np.uint8)
    env_ids = np.arange(envs)
    since_reset = np.full(envs, STACK)  # steps since the reset, STACK meaning "long ago"
    plain = [
        np.ascontiguousarray(frames_ET[:, np.arange(t - STACK + 1, t + 1) % ATARI_PERIOD]) for t in range(ATARI_PERIOD)
    ]

    def observe(step: int) -> np.ndarray[Any, Any]:
        if (since_reset >= STACK - 1).all():
            return plain[step % ATARI_PERIOD]
        stack = plain[step % ATARI_PERIOD].copy()
        for env in np.flatnonzero(since_reset < STACK - 1):
            stack[env, : STACK - 1 - since_reset[env]] = stack[env, STACK - 1 - since_reset[env]]
        return stack

    out = []
    obs = observe(0)
    for step in range(ATARI_EPISODE):
        end = (env_ids + 1) * (ATARI_EPISODE // envs) - STACK == step
        truncated = end & (env_ids % 2 == 1)
        since_reset += 1
        obs_next = observe(step + 1)
        following = obs_next
        if end.any():
            obs_next = obs_next.copy()
            obs_next[end, -1] ^= 255
            since_reset[end] = 0
            following = observe(step + 1)
        act, rew = rng.integers(0, 6, envs), rng.integers(-1, 2, envs).astype(float)
        out.append(Transition(obs, act, rew, end & ~truncated, truncated, obs_next))
        obs = following
    return out


def priorities(count: int, batch: int) -> list[np.ndarray[Any, Any]]:
    """Returns ``count`` arrays of TD errors."""
    rng = np.random.default_rng(1)
    return [rng.random(batch) + 0.01 for _ in range(count)]


def returns_data(steps: int, envs: int) -> dict[str, np.ndarray[Any, Any]]:
    """Returns ``[steps, envs]`` rewards, values, next values (float32), ``terminated`` and ``truncated``."""
    rng = np.random.default_rng(2)
    shape = (steps, envs)
    end = rng.random(shape) < 1 / 200
    truncated = end & (rng.random(shape) < 0.5)
    return {
        "rew": rng.random(shape, dtype=np.float32),
        "value": rng.random(shape, dtype=np.float32),
        "value_next": rng.random(shape, dtype=np.float32),
        "terminated": end & ~truncated,
        "truncated": truncated,
    }


def sampling(sample: Callable[[int], object], batch_sizes: list[int]) -> dict[str, Callable[[int], None]]:
    """Returns an operation for each batch size that only calls ``sample``."""

    def operation(size: int) -> Callable[[int], None]:
        def run(count: int) -> None:
            for _ in range(count):
                sample(size)

        return run

    return {str(size): operation(size) for size in batch_sizes}


def in_new_processes(*arguments: str) -> Callable[[int], float]:
    """Returns an operation that runs new interpreters with these arguments, and adds up the seconds that they print."""

    def run(count: int) -> float:
        command = [sys.executable, *arguments]
        return sum(float(subprocess.check_output(command, text=True).split()[-1]) for _ in range(count))

    return run


def importing(module: str) -> Callable[[int], float]:
    """Returns an operation that times ``import module`` inside new interpreters, without their start."""
    program = f"import time; start = time.perf_counter(); import {module}; print(time.perf_counter() - start)"
    return in_new_processes("-c", program)


def first_steps(driver: str, algorithm: str) -> dict[str, Callable[[int], float]]:
    """Returns the operation of :mod:`bench.peers.first_steps`."""
    return {"train": in_new_processes("-m", "bench.peers.first_steps", driver, algorithm)}


def d4rl_file(rows: int, following: bool, compressed: bool) -> Any:
    """Returns an HDF5 file in the shape of D4RL's of HalfCheetah, which is removed when closed.

    :param following: whether it has ``next_observations``.
    :param compressed: whether it is compressed by gzip, as those of D4RL are.
    """
    import tempfile

    import h5py

    columns = [np.concatenate(column) for column in zip(*chunks(rows, 17, 6, episode=1000), strict=True)]
    names = ("observations", "actions", "rewards", "terminals", "timeouts", "next_observations")
    file = tempfile.NamedTemporaryFile(suffix=".hdf5")  # noqa: SIM115 (lives as long as the operations)
    with h5py.File(file.name, "w") as data:
        for name, column in zip(names, columns, strict=True):
            if following or name != "next_observations":
                dtype = np.float32 if name == "rewards" else column.dtype
                data.create_dataset(name, data=column, dtype=dtype, compression="gzip" if compressed else None)
    return file
