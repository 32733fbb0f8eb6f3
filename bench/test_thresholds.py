"""Time until a threshold of the return, with each library's published settings; median of five seeds."""

from bench.harness import Bar, Case
from bench.libraries import RLFAST

PEERS = (RLFAST, "tianshou1", "sb3")
THREE_TIMES = (Bar(("tianshou1",), 3), Bar(("sb3",), 3))
TWO_SECONDS = Bar(at_most=2.0)


def case(title, algorithm, libraries=PEERS, bars=THREE_TIMES):
    return Case(title, "threshold", "threshold", {"algorithm": algorithm}, libraries, bars, quick=None, rounds=5)


CASES = [
    case("DQN, CartPole-v1 to a mean return of 475", "dqn"),
    case("PPO, CartPole-v1 to a mean return of 475", "ppo", bars=(*THREE_TIMES, TWO_SECONDS)),
    case("PQN, CartPole-v1 to a mean return of 475", "pqn", (RLFAST,), (TWO_SECONDS,)),
    case("SAC, Pendulum-v1 to a mean return of -200", "sac"),
    case("TD3, Pendulum-v1 to a mean return of -200", "td3"),
]


def test_thresholds(measure, case, library):
    measure(case, library)
