"""The time of a step of Python environments in worker processes, on two cores."""

from bench.harness import Bar, Case
from bench.libraries import RLFAST_AUTO, RLFAST_WORKERS

OURS, AUTO, HERE = RLFAST_WORKERS, RLFAST_AUTO, "rlfast in-process"
SYNC, ASYNC, SB3, TIANSHOU = "gymnasium in-process", "gymnasium async", "sb3 workers", "tianshou1 workers"
EVERYONE = (HERE, SYNC, ASYNC, SB3, TIANSHOU)


def params(seconds: float = 0.0, image: bool = False, num_envs: int = 8) -> dict[str, object]:
    return {"num_envs": num_envs, "workers": 2, "seconds": seconds, "image": image}


def case(name: str, libraries: tuple[str, ...], arguments: dict[str, object], *bars: Bar) -> Case:
    return Case(name, "vector_step", "step", arguments, libraries, bars, threads=2)


CASES = [
    case("steps that do nothing x 8", (OURS, *EVERYONE), params(), Bar((ASYNC, SB3, TIANSHOU), 8)),
    case("images 4x84x84 x 8", (OURS, *EVERYONE), params(image=True), Bar((ASYNC,), 6)),
    case("steps of 100 us x 8", (OURS, *EVERYONE), params(100e-6), Bar((SYNC,), 1.7)),
    *(
        case(f"steps of {seconds * 1e6:g} us x {count}, placed by measuring", (AUTO, HERE, OURS),
             params(seconds, num_envs=count), Bar((HERE,), 0.95))
        for seconds, count in [(0.0, 2), (0.0, 8), (20e-6, 8), (100e-6, 2), (100e-6, 8), (1e-3, 8)]
    ),
]  # fmt: skip


def test_process_envs(measure, case, library):
    measure(case, library)
