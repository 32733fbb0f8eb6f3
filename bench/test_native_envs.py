"""The time of a step of native environments with random actions, on two cores.

Also that of EnvPool's environments through rlfast's adapter, beside EnvPool alone.
"""

from bench.harness import Bar, Case
from bench.libraries import RLFAST_ENVS

OURS, SYNC, VECTORISED, ENVPOOL, RLOX = RLFAST_ENVS, "gymnasium sync", "gymnasium vectorised", "envpool", "rlox"
ADAPTED = "rlfast over envpool"
CARTPOLE = {16: (12, 12, 2.5), 128: (12, 30, 6), 1024: (6, 60, 10)}  # over Gymnasium's own, EnvPool and rlox
PENDULUM = {16: 12, 128: 30, 1024: 60}


def case(id: str, num_envs: int, others: tuple[str, ...], *bars: Bar) -> Case:
    params = {"id": id, "num_envs": num_envs}
    return Case(f"{id} x {num_envs}", "vector_step", "step", params, (OURS, *others), bars, threads=2)


def adapted(id: str, num_envs: int) -> Case:
    """Within 3%."""
    name, params = f"EnvPool's {id} x {num_envs}, adapted", {"id": id, "num_envs": num_envs}
    return Case(name, "vector_step", "step", params, (ADAPTED, ENVPOOL), (Bar((ENVPOOL,), 0.97),), threads=2)


CASES = [
    *(case("CartPole-v1", count, (SYNC,), Bar((SYNC,), 8)) for count in (1, 2, 4, 8, 32, 64, 256, 512, 2048, 4096)),
    *(
        case(
            "CartPole-v1",
            count,
            (SYNC, VECTORISED, ENVPOOL, RLOX),
            Bar((SYNC,), 8),
            Bar((VECTORISED,), own),
            Bar((ENVPOOL,), pool),
            Bar((RLOX,), rust),
        )
        for count, (own, pool, rust) in CARTPOLE.items()
    ),
    *(case("Pendulum-v1", count, (SYNC, ENVPOOL), Bar((ENVPOOL,), times)) for count, times in PENDULUM.items()),
    *(adapted(id, count) for id in ("CartPole-v1", "Pendulum-v1") for count in (64, 256, 1024)),
]


def test_native_envs(measure, case, library):
    measure(case, library)
