"""rlfast's buffers inside Stable-Baselines3: its own calls and its own loop, with one argument changed."""

from typing import Any

from bench.harness import Bar, Case

BOTH = ("rlfast in sb3", "sb3")
SMALL = {"rows": 100_000, "obs_dim": 4, "act_dim": 0, "batch_sizes": (32, 256, 4096)}
WIDE = {"rows": 300_000, "obs_dim": 376, "act_dim": 17, "batch_sizes": (32, 256)}
ATARI = {"rows": 100_000, "envs": 8, "batch_sizes": (32, 256)}


def case(name: str, scenario: str, operation: str, params: dict[str, Any], times: float, **rest: Any) -> Case:
    return Case(f"{name} in SB3", scenario, operation, params, BOTH, (Bar(("sb3",), times),), **rest)


CASES = [
    case("add 1 env f32[4]", "add_one", "add", {"obs_dim": 4, "rows": 20_000}, 1),
    case("add 8 envs Atari", "add_atari", "add", {"envs": 8, "rows": 16_000}, 1),
    *(case(f"sample f32[4] 100k x{size}", "sample_rows", str(size), SMALL, 3) for size in SMALL["batch_sizes"]),
    *(
        case(f"sample f32[376]/a17 300k x{size}", "sample_rows", str(size), WIDE, 3, quick={"rows": 50_000})
        for size in WIDE["batch_sizes"]
    ),
    *(
        case(f"sample Atari 8 envs 100k x{size}", "sample_atari", str(size), ATARI, 3, quick={"rows": 20_000})
        for size in ATARI["batch_sizes"]
    ),
    case(
        "sample n-step 3 x256 16 envs 100k",
        "nstep",
        "sample+nstep",
        {"rows": 100_000, "envs": 16, "n_step": 3, "batch_size": 256},
        3,
    ),
    case("sample hindsight x256 100k", "hindsight", "256", {"rows": 100_000, "batch_size": 256}, 3),
    case("advantages 2048x16", "gae", "call", {"steps": 2048, "envs": 16}, 3),
    case(
        "memory Atari 8 envs", "memory_atari", "fill", {"envs": 8, "rows": 40_000}, 4, quick={"rows": 16_000}, unit="B"
    ),
    case("DQN CartPole 1 env, step + update", "dqn", "train", {"envs": 1, "hidden": (64, 64)}, 1),
    case("DQN CartPole 10 envs, vector step + update", "dqn", "train", {"envs": 10, "hidden": (128, 128, 128, 128)}, 1),
]


def test_interop_sb3(measure, case, library):
    measure(case, library)
