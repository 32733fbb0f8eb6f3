"""The time of an iteration of DQN on CartPole-v1: one step of ten environments, one update of batch 64."""

from bench.harness import Case
from bench.libraries import RLFAST

CASES = [
    Case(
        "DQN CartPole 10 envs, vector step + update",
        "dqn",
        "train",
        {"envs": 10, "hidden": (128, 128, 128, 128)},
        (RLFAST, "tianshou1", "sb3"),
    )
]


def test_end_to_end(measure, case, library):
    measure(case, library)
