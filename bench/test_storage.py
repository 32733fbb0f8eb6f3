"""Buffers of real frames of Pong: in RAM as they are, and packed."""

from bench.harness import Case
from bench.libraries import RLFAST

STORAGES = (RLFAST, "rlfast lz4", "rlfast zstd")
FILLED = {"envs": 8, "rows": 40_000}
PONG = FILLED | {"batch_sizes": [32, 256]}
QUICK = {"rows": 16_000}

CASES = [
    Case("storage Pong, memory", "memory_pong", "fill", FILLED, STORAGES, quick=QUICK, row_bytes=7000, unit="B"),
    Case("storage Pong, add 8 envs", "storage_pong", "add", PONG, STORAGES, quick=QUICK, row_bytes=7000),
    Case("storage Pong, sample 32", "storage_pong", "32", PONG, STORAGES, quick=QUICK, row_bytes=7000),
    Case("storage Pong, sample 256", "storage_pong", "256", PONG, STORAGES, quick=QUICK, row_bytes=7000),
]


def test_storage(measure, case, library):
    measure(case, library)
