"""The segment tree alone: 256 draws by prefix sum, then 256 changes of values."""

from bench.harness import Bar, Case
from bench.libraries import RLFAST, TIANSHOU

CASES = [
    Case(
        f"segment tree sample+update x256 {label}",
        "tree",
        "sample+update",
        {"size": size, "batch_size": 256},
        (RLFAST, "torchrl", *TIANSHOU),
        (Bar(("torchrl",), 2.5),),
    )
    for size, label in ((100_000, "100k"), (1_000_000, "1M"))
]


def test_tree(measure, case, library):
    measure(case, library)
