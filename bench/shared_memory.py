"""One buffer of several processes beside a buffer of one: rows added and sampled, by wall time and by processor time.

    python -m bench.shared_memory [--seconds 2] [--rounds 5] [--record]

Four writers with 16 environments each add as fast as they can while one process samples batches of 256. Rows have the
shapes of HalfCheetah. Rounds are interleaved, and the table has the best of each, as other programs only take time
away. Five busy processes share the cores, so the wall time of one tells of the scheduler as well; rows for each
second of processor time tell what the shared memory costs.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rlfast.data import Batch, SharedReplayBuffer, VectorReplayBuffer

WRITERS, ENVS, ROWS, SAMPLED = 4, 16, 200_000, 256
RESULTS = Path(__file__).parent / "results" / "shared_memory.json"
Rates = dict[str, float]


def step(envs: int, rng: np.random.Generator) -> Batch:
    """The rows of one step of vector environments."""
    obs = rng.random((envs, 17), np.float32)
    flags = np.zeros(envs, np.bool_)
    act = rng.random((envs, 6), np.float32)
    return Batch(obs=obs, act=act, rew=rng.random(envs), terminated=flags, truncated=flags, obs_next=obs + 1, info={})


def adding(buffer: Any) -> Callable[[], int]:
    """One call of it adds a step of 16 environments; it returns the number of rows."""
    rows, ids = step(ENVS, np.random.default_rng(0)), np.arange(ENVS)

    def add() -> int:
        buffer.add(rows, ids)
        return ENVS

    return add


def sampling(buffer: Any) -> Callable[[], int]:
    """One call of it draws a batch; it returns the number of rows."""

    def sample() -> int:
        buffer.sample(SAMPLED)
        return SAMPLED

    return sample


def rate(work: Callable[[], int], seconds: float) -> tuple[float, float]:
    """Rows a second of wall time, and of processor time."""
    for _ in range(200):
        work()
    rows, wall, cpu = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - wall < seconds:
        for _ in range(50):
            rows += work()
    return rows / (time.perf_counter() - wall), rows / (time.process_time() - cpu)


def alone(buffer: Any, writer: Any, seconds: float, name: str) -> Rates:
    """The rates of one process that does one thing at a time."""
    add, sample = rate(adding(writer), seconds), rate(sampling(buffer), seconds)
    return dict(
        zip((f"{name} add", f"{name} add, cpu", f"{name} sample", f"{name} sample, cpu"), add + sample, strict=True)
    )


def shared() -> SharedReplayBuffer:
    """A buffer in shared memory for all writers."""
    return SharedReplayBuffer(ROWS, WRITERS * ENVS, step(1, np.random.default_rng(0))[0], seed=0)


def together(seconds: float) -> Rates:
    """The rates of four writers and a sampler at the same time."""
    buffer = shared()
    context = multiprocessing.get_context("fork")
    start, results = context.Barrier(WRITERS + 1), context.Queue()

    def run(name: str, make: Callable[[], Callable[[], int]]) -> None:
        work = make()
        work() if name == "add" else None
        start.wait()
        results.put((name, *rate(work, seconds)))

    buffer.writer([0]).add(step(1, np.random.default_rng(0)))  # so that there is something to draw
    makers = [("add", lambda k=k: adding(buffer.writer(range(k * ENVS, (k + 1) * ENVS)))) for k in range(WRITERS)]
    processes = [context.Process(target=run, args=maker) for maker in [*makers, ("sample", lambda: sampling(buffer))]]
    for process in processes:
        process.start()
    found = [results.get() for _ in processes]
    for process in processes:
        process.join()
    writers, sampler = [one for one in found if one[0] == "add"], next(one for one in found if one[0] == "sample")
    return {
        "together add": sum(one[1] for one in writers),
        "together add, cpu": sum(one[2] for one in writers) / WRITERS,
        "together sample": sampler[1],
        "together sample, cpu": sampler[2],
    }


def measure(seconds: float, rounds: int) -> Rates:
    """The best of several interleaved rounds."""
    best: Rates = {}
    vector = VectorReplayBuffer(ROWS, ENVS, seed=0)
    own = shared()
    writer = own.writer(range(ENVS))
    for _ in range(rounds):
        found = alone(vector, vector, seconds, "one process") | alone(own, writer, seconds, "shared, alone")
        found |= together(seconds)
        best = {name: max(value, best.get(name, 0.0)) for name, value in found.items()}
    return best


def main() -> None:
    """Measures, and prints the rates and their ratios to those of one process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--record", action="store_true", help=f"write {RESULTS.name}")
    given = parser.parse_args()
    before = os.getloadavg()[0]
    best = measure(given.seconds, given.rounds)
    for name, value in best.items():
        base = best["one process " + name.split(" ", 1)[1].removeprefix("alone ")] if "process" not in name else value
        print(f"{name:28} {value / 1e6:8.2f} M rows/s {value / base:6.2f}x")
    if given.record:
        cores = len(os.sched_getaffinity(0))
        parts = {"cores": cores, "load_before": before, "seconds": given.seconds, "rounds": given.rounds}
        RESULTS.write_text(json.dumps(parts | {"rows_per_second": best}, indent=1) + "\n")


if __name__ == "__main__":
    main()
