"""What it costs that a replay buffer is in shards, in this process and in Ray actors; no goals, see docs/scaling.md."""

from bench.harness import Case
from bench.libraries import RLFAST_ONE, RLFAST_RAY, RLFAST_SHARDS

LIBRARIES = (RLFAST_RAY, RLFAST_SHARDS, RLFAST_ONE)
MUJOCO = {"rows": 50_000, "envs": 8, "steps": 64, "number": 2, "batch_size": 256}
ATARI = {"rows": 10_000, "envs": 8, "steps": 64, "number": 2, "batch_size": 32, "image": True}

CASES = [
    Case(f"{name}, {what}", "shards", operation, params, LIBRARIES, (), {"rows": 2_000})
    for name, params in (("f32[17]", MUJOCO), ("Atari", ATARI))
    for what, operation in (
        ("insert 512 rows", "insert"),
        (f"sample x{params['batch_size']}", "sample"),
        (f"sample x{params['batch_size']}, new priorities", "sample+update"),
    )
]


def test_ray(measure, case, library):
    measure(case, library)
