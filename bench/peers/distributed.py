"""The driver of shards: one buffer without actors, shards in this process, and shards in Ray actors."""

from __future__ import annotations

from typing import Any

import numpy as np

import rlfast
from bench.peers import workload
from bench.peers.rlfast import as_batch
from rlfast.data import NStep, PrioritizedVectorReplayBuffer, VectorReplayBuffer
from rlfast.distributed import PrioritizedShardedBuffer, Shard, ShardConfig, ShardedBuffer
from rlfast.distributed.build import connect

VARIANT = ""
"""``one``, or the address of a cluster."""


def versions() -> dict[str, str]:
    found = {"rlfast": rlfast.__version__, "numpy": np.__version__}
    if VARIANT == "local":
        import ray

        found["ray"] = ray.__version__
    return found


def chunk(envs: int, steps: int, image: bool) -> VectorReplayBuffer:
    """The rows that a collector sends at once."""
    rows = VectorReplayBuffer(envs * steps, envs, seed=0)
    stream = workload.atari_steps(envs) if image else workload.vector_steps(steps, envs, 17, 6)
    for step in stream[:steps]:
        rows.add(as_batch(step))
    return rows


def shards(rows: int, envs: int, steps: int, number: int, batch_size: int, image: bool = False) -> dict[str, Any]:
    """Prepares inserting a chunk, and sampling with new priorities, where rows are in one buffer or in shards."""
    sent, errors = chunk(envs, steps, image), np.linspace(0.1, 2.0, batch_size)
    if VARIANT == "one":
        return one(sent, rows, batch_size, errors)
    cluster = connect(VARIANT)
    configs = [ShardConfig(rows=rows, rings=envs, seed=k, unit=NStep(1, 0.99), alpha=0.6) for k in range(number)]
    actors = [cluster.start(Shard, config) for config in configs]
    buffer = PrioritizedShardedBuffer(actors, beta=0.4, seed=0, ahead=1)
    plain = ShardedBuffer(actors, seed=0, ahead=1)
    turn = iter(range(10**9))

    def insert(count: int) -> None:
        for _ in range(count):
            actors[next(turn) % number].call("insert", sent, 0).result()

    def sample(count: int) -> None:
        for _ in range(count):
            plain.sample(batch_size)

    def sample_and_update(count: int) -> None:
        for _ in range(count):
            _, indices = buffer.sample(batch_size)
            buffer.update_weight(indices, errors)

    insert(number * rows // (envs * steps))
    for each in (buffer, plain):
        each.refresh()
    return {"insert": insert, "sample": sample, "sample+update": sample_and_update}


def one(sent: VectorReplayBuffer, rows: int, batch_size: int, errors: Any) -> dict[str, Any]:
    """Prepares the same with one buffer."""
    envs = sent.buffer_num
    buffer = PrioritizedVectorReplayBuffer(rows, envs, alpha=0.6, beta=0.4, unit=NStep(1, 0.99), seed=0)
    places = sent.sample_indices(0)
    rings = np.searchsorted(sent.subbuffer_edges, places, side="right") - 1

    def insert(count: int) -> None:
        for _ in range(count):
            buffer.add(sent[places], rings)

    def sample(count: int) -> None:
        for _ in range(count):
            buffer.sample(batch_size)

    def sample_and_update(count: int) -> None:
        for _ in range(count):
            _, indices = buffer.sample(batch_size)
            buffer.update_weight(indices, errors)

    insert(rows // (envs * len(places) // envs))
    return {"insert": insert, "sample": sample, "sample+update": sample_and_update}
