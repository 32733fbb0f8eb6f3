"""rlfast's buffer inside TorchRL, in the layout that its collectors and losses use."""

from bench.harness import Bar, Case

CASES = [
    Case(
        f"prioritized sample+update in TorchRL x256 f32[4] {label}",
        "prioritized_tensordict",
        "sample+update",
        {"rows": rows, "batch_size": 256},
        ("rlfast in torchrl", "torchrl"),
        (Bar(("torchrl",), 5),),
    )
    for rows, label in ((100_000, "100k"), (1_000_000, "1M"))
]


def test_interop_torchrl(measure, case, library):
    measure(case, library)
