"""rlfast's buffers inside Tianshou: its own loop, with one line changed."""

from bench.harness import Bar, Case

DQN = {"envs": 10, "hidden": (128, 128, 128, 128)}
PRIORITIZED = {"rows": 100_000, "envs": 10, "batch_size": 64}
CASES = [
    Case(
        "DQN CartPole 10 envs in Tianshou 1.0, the buffer alone changed",
        "dqn",
        "train",
        DQN,
        ("rlfast in tianshou1", "tianshou1"),
        (Bar(("tianshou1",), 1.0),),
    ),
    *(
        Case(
            f"prioritized sample+update x64 in Tianshou {version}",
            "prioritized_vector",
            "sample+update",
            PRIORITIZED,
            (f"rlfast in {name}", name),
            (Bar((name,), 1.0),),
        )
        for name, version in (("tianshou1", "1.0"), ("tianshou2", "2.0"))
    ),
]


def test_interop_tianshou(measure, case, library):
    measure(case, library)
