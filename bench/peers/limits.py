"""Lower limits: what of an operation any library has to do.

That of a sample are its bytes, gathered by ``np.take`` ("take") or by a small C kernel ("gather").
Indices are drawn beforehand and outputs are reused, so this is the copying alone. A row of vector observations is three
gathers: the observation, the next observation (from another random row, as if stored apart) and a record of action,
reward and flags.

That of a training loop on Pong are its gradient steps, written by hand in PyTorch ("network").
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np

from bench.peers import workload

VARIANT = "take"
THREADS = int(os.environ.get("OMP_NUM_THREADS", "1"))
Array = np.ndarray[Any, Any]


def versions() -> dict[str, str]:
    return {"numpy": np.__version__, **({"cc": compiler_version()} if VARIANT == "gather" else {})}


def compiler_version() -> str:
    return subprocess.run(["cc", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]


def compiled() -> ctypes.CDLL:
    """Returns the C kernel, compiled for this processor."""
    source = Path(__file__).with_name("gather.c")
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "gather.so")
        options = ["-O3", "-march=native", "-fopenmp", "-shared", "-fPIC"]
        subprocess.run(["cc", *options, "-o", str(library), str(source)], check=True)
        return ctypes.CDLL(str(library))


def copier() -> Callable[[Array, Array, Array], Callable[[], object]]:
    """Returns ``prepare(rows, index, out)`` of the variant, which returns a function that copies."""
    if VARIANT == "take":
        return lambda rows, index, out: partial(np.take, rows, index, axis=0, out=out, mode="clip")
    kernel = compiled().gather

    def prepare(rows: Array, index: Array, out: Array) -> Callable[[], object]:
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in (out, rows, index)]
        return partial(kernel, *pointers, ctypes.c_int64(index.size), ctypes.c_int64(rows[0].nbytes), THREADS)

    return prepare


def operation(parts: list[tuple[Array, list[Array]]]) -> Callable[[int], None]:
    """Returns an operation that gathers the rows of each part at the next of its index arrays."""
    prepare = copier()
    outputs = [np.empty((*index[0].shape, *rows.shape[1:]), rows.dtype) for rows, index in parts]
    turns = [
        [prepare(rows, index[turn], out) for (rows, index), out in zip(parts, outputs, strict=True)]
        for turn in range(len(parts[0][1]))
    ]
    rounds = cycle(turns)

    def run(count: int) -> None:
        for calls in islice(rounds, count):
            for call in calls:
                call()

    run.arrays = (parts, outputs)  # type: ignore[attr-defined]  # kept alive, as the kernel has pointers to them
    return run


def draws(rows: int, size: int, seed: int, count: int = 64) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, rows, size) for _ in range(count)]


def sample_rows(rows: int, obs_dim: int, act_dim: int, batch_sizes: list[int]) -> dict[str, Any]:
    obs = np.concatenate([block.obs for block in workload.chunks(rows, obs_dim, act_dim)])
    record = np.ones((rows, 4 * act_dim + 16), np.uint8)

    def sample(size: int) -> Any:
        index = draws(rows, size, 0)
        return operation([(obs, index), (obs, draws(rows, size, 1)), (record, index)])

    return {str(size): sample(size) for size in batch_sizes}


def sample_atari(rows: int, envs: int, batch_sizes: list[int]) -> dict[str, Any]:
    """Prepares five frames for each row with the C kernel (obs and next obs overlap), and two stacks of four with
    ``np.take``.
    """
    steps = workload.atari_steps(envs)
    frames = np.empty((rows, *workload.FRAME), np.uint8)
    for start in range(0, rows, envs):
        frames[start : start + envs] = steps[start // envs % len(steps)].obs[: rows - start, -1]

    def sample(size: int) -> Any:
        anchors = draws(rows - 2 * workload.STACK, size, 0, count=16)
        wide = [anchor[:, None] + np.arange(workload.STACK + 1) for anchor in anchors]
        if VARIANT == "gather":
            return operation([(frames, wide)])
        return operation([(frames, [block[:, :-1] for block in wide]), (frames, [block[:, 1:] for block in wide])])

    return {str(size): sample(size) for size in batch_sizes}


def memory_rows(obs_dim: int, act_dim: int, rows: int) -> dict[str, Any]:
    """Prepares the naive layout: one array each for obs, obs_next, act, reward and two flags."""
    stream = workload.single_steps(10_000, obs_dim, act_dim, dtype="float64", episode=1000)

    def fill_new(rows: int = rows) -> list[Array]:
        columns = [np.empty((rows, *np.shape(value)), np.asarray(value).dtype) for value in stream[0]]
        for row, step in zip(range(rows), cycle(stream), strict=False):
            for column, value in zip(columns, step, strict=True):
                column[row] = value
        return columns

    fill_new(16)
    return {"fill": fill_new}


def training(algorithm: str) -> dict[str, Any]:
    """Prepares the gradient steps of an iteration: both networks forward, one backward, and a fused Adam."""
    import torch

    from bench.peers import tasks
    from bench.peers.training import BATCH, UPDATES

    size, count_of = BATCH[algorithm], UPDATES[algorithm]
    network, target = tasks.nature_cnn(), tasks.nature_cnn()
    adam = torch.optim.Adam(network.parameters(), lr=1e-4, fused=True)
    obs = torch.randint(0, 256, (64, 2, size, *tasks.IMAGE), dtype=torch.uint8)
    act, rew, batches = torch.randint(0, 6, (size, 1)), torch.rand(size), cycle(obs)

    def train(count: int) -> None:
        for now, following in islice(batches, count * count_of):
            with torch.no_grad():
                returns = rew + 0.99 * target(following).amax(1)
            loss = torch.nn.functional.huber_loss(network(now).gather(1, act)[:, 0], returns)
            adam.zero_grad()
            loss.backward()
            adam.step()

    return {"train": train}
