"""The time of training scripts as users write them, with ``torch.optim.Adam(net.parameters())``.

An iteration as in ``test_training.py``, and the first 10,000 steps in a new process, after its imports.
"""

from bench.harness import Bar, Case
from bench.test_training import PEERS, TITLES

STEADY = {"dqn": (2.4, 1.5), "ppo": (2.2, 2.2)}
FIRST = {"dqn": (2.2, 1.4), "ppo": (2.2, 2.2)}


def case(name, scenario, algorithm, goals, **options):
    bars = tuple(Bar((peer,), times) for peer, times in zip(PEERS[1:], goals, strict=True))
    return Case(name, scenario, "train", {"algorithm": algorithm}, PEERS, bars, **options)


CASES = [
    case(f"{TITLES[algorithm]}, torch.optim.Adam, Python environments", "script", algorithm, goals)
    for algorithm, goals in STEADY.items()
] + [
    case(f"{algorithm.upper()} CartPole, the first 10,000 steps, torch.optim.Adam, Python environments", "first_steps",
         algorithm, goals, rounds=7)
    for algorithm, goals in FIRST.items()
]  # fmt: skip


def test_scripts(measure, case, library):
    measure(case, library)
