"""Prioritized replay: drawing a batch with its weights, then updating its priorities."""

from bench.harness import Bar, Case
from bench.libraries import RLFAST, TIANSHOU

PEERS = ("cpprb", "torchrl", *TIANSHOU, "rlox")
CASES = [
    Case(
        f"prioritized sample+update x256 f32[4] {label}",
        "prioritized",
        "sample+update",
        {"rows": rows, "batch_size": 256},
        (RLFAST, *PEERS),
        (Bar(PEERS, times),),
    )
    for rows, label, times in ((100_000, "100k", 4), (1_000_000, "1M", 6))
]


def test_prioritized(measure, case, library):
    measure(case, library)
