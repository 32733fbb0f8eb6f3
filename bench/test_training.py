"""The time of an iteration of training loops without tests: a collect, its updates, and the trainer's own work."""

from bench.harness import Bar, Case
from bench.libraries import NETWORK, RLFAST

PEERS = (RLFAST, "tianshou1", "sb3")
TITLES = {
    "dqn": "DQN CartPole, 10 steps + 1 update",
    "dqn_pong": "DQN Pong (NatureCNN), 8 steps + 2 updates of 32",
    "c51": "C51 CartPole, 10 steps + 1 update",
    "qrdqn": "QRDQN CartPole, 10 steps + 1 update",
    "rainbow": "Rainbow CartPole, 10 steps + 1 update",
    "ppo": "PPO CartPole, 2000 steps + 310 minibatches",
    "ppo_cheetah": "PPO HalfCheetah, 2048 steps + 320 minibatches",
    "sac": "SAC Pendulum, 1 step + 1 update",
    "td3": "TD3 Pendulum, 1 step + 1 update",
    "redq": "REDQ Pendulum, 1 step + 20 updates of 10 critics",
    "td3_bc": "TD3+BC fixed data, 1 update",
    "cql": "CQL fixed data, 1 update",
}
ENVIRONMENTS = {"dqn_pong": ("Atari",), "ppo_cheetah": ("Python",)}  # Python and native ones for the others
OFFLINE = ("td3_bc", "cql")
BARS = {  # for Tianshou 1.0 and SB3, eager and compiled; SB3 has neither REDQ nor distributions of returns
    "dqn": ((3, 2), (4.5, 3)),
    "dqn_pong": ((1.3, 1.3), (1.5, 1.5)),
    "c51": ((2.5,), (4,)),
    "qrdqn": ((2.5,), (4,)),
    "rainbow": ((2.5,), (4,)),
    "ppo": ((2.2, 2.2), (3.5, 3.5)),
    "ppo_cheetah": ((2,), (2,)),
    "sac": ((1.4, 1.4), (1.8, 1.8)),
    "td3": ((1.4, 1.4), (1.8, 1.8)),
    "redq": ((4,), (4,)),
    "td3_bc": ((1.5, 1.5), (2, 2)),  # for Tianshou 1.0 and d3rlpy
    "cql": ((1.5, 1.5), (2, 2)),
}
WAYS = {"eager": ("train", 0), "compiled": ("train, compiled", 1)}  # rlfast's operation, and the index of its bar


def case(algorithm: str, way: str, envs: str) -> Case:
    """Bars do not apply to native environments, which the other libraries do not have."""
    own, which = WAYS[way]
    times_of = BARS[algorithm][which]
    peers = (RLFAST, "sb3") if algorithm == "ppo_cheetah" else PEERS[: 1 + len(times_of)]
    bars = [Bar((peer,), times) for peer, times in zip(peers[1:], times_of, strict=True)]
    return Case(
        f"{TITLES[algorithm]}, {way}, {envs} environments",
        "training",
        "train",
        {"algorithm": algorithm},
        (*peers, NETWORK) if algorithm == "dqn_pong" else peers,
        () if envs == "native" else tuple(bars),
        own_operation=f"{own}, native" if envs == "native" else own,
    )


def offline_case(algorithm: str, way: str) -> Case:
    own, which = WAYS[way]
    peers = ("tianshou1", "d3rlpy")
    bars = tuple(Bar((peer,), times) for peer, times in zip(peers, BARS[algorithm][which], strict=True))
    name, params = f"{TITLES[algorithm]}, {way}", {"algorithm": algorithm}
    return Case(name, "offline", "train", params, (RLFAST, *peers), bars, own_operation=own)


CASES = [
    case(algorithm, way, envs)
    for algorithm in BARS
    if algorithm not in OFFLINE
    for way in WAYS
    for envs in ENVIRONMENTS.get(algorithm, ("Python", "native"))
]
CASES += [offline_case(algorithm, way) for algorithm in OFFLINE for way in WAYS]


def test_training(measure, case, library):
    measure(case, library)
