"""Writing transitions and drawing uniform batches."""

from bench.harness import Bar, Case
from bench.libraries import COPIES, REPLAY_PEERS, RLFAST, TIANSHOU

ATARI_PEERS = ("sb3", "torchrl", *TIANSHOU)
SMALL = {"obs_dim": 4, "act_dim": 0, "batch_sizes": (32, 256, 4096)}
ATARI = {"rows": 100_000, "envs": 8, "batch_sizes": (32, 256, 4096)}
FEWER = {"rows": 20_000}


def adding() -> list[Case]:
    one = {"obs_dim": 4, "rows": 20_000}
    vector = {"envs": 16, "obs_dim": 17, "act_dim": 6, "rows": 64_000}
    atari = {"envs": 8, "rows": 16_000}
    tianshou = Bar(("tianshou1",), 15)
    return [
        Case("add 1 env f32[4]", "add_one", "add", one, (RLFAST, *REPLAY_PEERS), (tianshou, Bar(("sb3",), 1.5))),
        Case("add 1 env f32[4], keywords", "add_one", "keywords", one, (RLFAST, "rlox"), (Bar(("rlox",), 0.5),)),
        Case(
            "add 16 envs f32[17]/f32[6]",
            "add_vector",
            "add",
            vector,
            (RLFAST, *REPLAY_PEERS),
            (Bar(("tianshou1",), 40), Bar(("sb3",), 2)),
        ),
        *adding_infos(one, vector),
        Case("add 8 envs Atari", "add_atari", "add", atari, (RLFAST, *ATARI_PEERS), (Bar(ATARI_PEERS, 6),)),
        Case(
            "add 8 envs Atari, single frames stored",
            "add_atari",
            "add",
            atari,
            (RLFAST, *TIANSHOU),
            own_operation="add frames",
        ),
        Case(
            "add 8 envs Atari, stacks made of one new frame each",
            "add_atari",
            "add",
            atari,
            (RLFAST, *ATARI_PEERS),
            (Bar(("sb3",), 6),),
            own_operation="stack and add frames",
        ),
    ]


def adding_infos(one: dict[str, int], vector: dict[str, int]) -> list[Case]:
    libraries = (RLFAST, "sb3", *TIANSHOU)
    cases = []
    for info in ("empty info", "info of numbers"):
        bars = (Bar(("tianshou1",), 15), Bar(("sb3",), 1.5))
        cases.append(Case(f"add 1 env f32[4], {info}", "add_one", f"add {info}", one, libraries, bars))
    for info in ("empty info", "dicts"):
        bars = (Bar(("tianshou1",), 30), Bar(("sb3",), 2))
        cases.append(Case(f"add 16 envs f32[17]/f32[6], {info}", "add_vector", f"add {info}", vector, libraries, bars))
    return cases


def sampling_small() -> list[Case]:
    cases = []
    for size, times in ((32, 5), (256, 5), (4096, 4)):
        everyone = (RLFAST, *REPLAY_PEERS, "rlox", *COPIES)
        bars = (Bar(REPLAY_PEERS, times), Bar(("rlox",), 1.0))
        params = {"rows": 100_000, **SMALL}
        cases.append(Case(f"sample f32[4] 100k x{size}", "sample_rows", str(size), params, everyone, bars))
    for size in (32, 256, 4096):
        params = {"rows": 1_000_000, **SMALL}
        contenders = (RLFAST, "cpprb", "rlox", *COPIES)
        bars = (Bar(("rlox",), 1.3),)
        cases.append(Case(f"sample f32[4] 1M x{size}", "sample_rows", str(size), params, contenders, bars))
    return cases


def sampling_atari() -> list[Case]:
    """Stacks added and sampled; the same into arrays of the caller; and single frames, as in Tianshou's scripts."""
    cases = []
    for size, times in ((32, 2.5), (256, 4), (4096, 4)):
        everyone = (RLFAST, *ATARI_PEERS, *COPIES)
        bars = (Bar(ATARI_PEERS, times),)
        case = Case(
            f"sample Atari 8 envs 100k x{size}",
            "sample_atari",
            str(size),
            ATARI,
            everyone,
            bars,
            FEWER,
            row_bytes=56_500,
        )
        cases.append(case)
    cases.append(
        Case(
            "sample Atari 8 envs 100k x4096, into given arrays",
            "sample_atari",
            "4096",
            ATARI,
            (RLFAST, *ATARI_PEERS, *COPIES),
            (Bar(ATARI_PEERS, 4),),
            quick=None,
            row_bytes=56_500,
            own_operation="4096 given",
        )
    )
    for size in (32, 256, 4096):
        name = f"sample Atari 8 envs 100k x{size}, single frames stored"
        cases.append(Case(name, "sample_frames", str(size), ATARI, (RLFAST, *TIANSHOU), quick=None, row_bytes=7_200))
    return cases


CASES = [*adding(), *sampling_small(), *sampling_atari()]


def test_replay(measure, case, library):
    measure(case, library)
