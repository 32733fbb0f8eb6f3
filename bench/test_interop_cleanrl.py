"""rlfast's prioritized buffer in place of the one that CleanRL's Rainbow defines."""

from bench.harness import Bar, Case

BOTH = ("rlfast in cleanrl", "cleanrl")
SETTINGS = {"rows": 40_000, "batch_size": 32, "train_frequency": 4}
QUICK = {"rows": 10_000}

CASES = [
    Case(
        f"{label} in CleanRL's Rainbow",
        "rainbow",
        operation,
        SETTINGS,
        BOTH,
        (Bar(("cleanrl",), 10),),
        quick=QUICK,
        row_bytes=56_500,
    )
    for label, operation in (("add", "add"), ("4 x add, sample and update x32", "step"))
]


def test_interop_cleanrl(measure, case, library):
    measure(case, library)
