"""Wall-clock time until a threshold of the return, with each library's published settings; median of three seeds."""

from bench.harness import Bar, Case
from bench.libraries import RLFAST

PEERS = (RLFAST, "tianshou1", "sb3")
TITLES = {
    "dqn": "DQN, CartPole-v1 to a mean return of 475",
    "ppo": "PPO, CartPole-v1 to a mean return of 475",
    "sac": "SAC, Pendulum-v1 to a mean return of -200",
}
CASES = [
    Case(
        title,
        "threshold",
        "threshold",
        {"algorithm": algorithm},
        PEERS,
        tuple(Bar((peer,), 3) for peer in PEERS[1:]),
        quick=None,
        rounds=3,
    )
    for algorithm, title in TITLES.items()
]


def test_thresholds(measure, case, library):
    measure(case, library)
