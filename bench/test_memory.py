"""Resident bytes of a transition, in a process that only fills a buffer.

rlfast and TorchRL store the true final observation; Tianshou and SB3 lose it in their modes that save memory.
"""

from bench.harness import Bar, Case
from bench.libraries import RLFAST

CASES = [
    Case(
        "memory Atari 8 envs, 4-stacks in and out",
        "memory_atari",
        "fill",
        {"envs": 8, "rows": 40_000},
        (RLFAST, "tianshou1", "sb3", "torchrl"),
        (Bar(at_most=7200),),
        quick={"rows": 16_000},
        row_bytes=56_500,
        unit="B",
    ),
    Case(
        "memory f64[17]/f32[6], 1 env",
        "memory_rows",
        "fill",
        {"obs_dim": 17, "act_dim": 6, "rows": 400_000},
        (RLFAST, "tianshou1", "sb3", "take"),
        (Bar(("take",), 1 / 0.6),),
        quick={"rows": 100_000},
        unit="B",
    ),
]


def test_memory(measure, case, library):
    measure(case, library)
