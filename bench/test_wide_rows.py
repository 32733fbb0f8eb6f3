"""Rows of 3 KB, whose copies are bound by memory bandwidth.

The bars are for two threads; the cases with one thread show the gain of the second.
"""

from bench.harness import Bar, Case
from bench.libraries import COPIES, RLFAST

PEERS = ("cpprb", "sb3", "torchrl", "tianshou1")  # Tianshou 2 is within a few per cent of 1 and would not fit in memory
PARAMS = {"rows": 1_000_000, "obs_dim": 376, "act_dim": 17, "batch_sizes": (256, 4096)}


def sampling(threads: int, size: int, *bars: Bar) -> Case:
    return Case(
        f"sample f32[376]/a17 1M x{size}, {threads} thread{'s' * (threads - 1)}",
        "sample_rows",
        str(size),
        PARAMS,
        (RLFAST, *PEERS, *COPIES),
        bars,
        quick={"rows": 100_000},
        threads=threads,
        row_bytes=3100,
    )


CASES = [
    sampling(1, 256),
    sampling(1, 4096),
    sampling(2, 256, Bar(PEERS, 1.8), Bar(("gather",), 1 / 1.3)),
    sampling(2, 4096, Bar(PEERS, 2.5), Bar(("gather",), 1 / 1.3)),
]


def test_wide_rows(measure, case, library):
    measure(case, library)
