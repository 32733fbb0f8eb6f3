"""The time of a decision of an exported policy, beside other ways to let the same network act, on one core.

Each is one call from Python, but for the header in C.
"""

from bench.harness import Bar, Case

OURS, C = "rlfast exported", "rlfast exported to C"
PEERS = ("onnxruntime", "torch.jit", "sb3 predict", "NumPy by hand")


def case(rows: int, libraries: tuple[str, ...], *bars: Bar) -> Case:
    name = "a decision, MLP 2 x 64" if rows == 1 else f"{rows} decisions, MLP 2 x 64"
    return Case(name, "decide", "act", {"inputs": 17, "actions": 6, "rows": rows}, libraries, bars)


PICTURES = {"inputs": 0, "actions": 6, "rows": 1}
CASES = [
    case(1, (OURS, C, *PEERS), Bar(("NumPy by hand",), 2), Bar(("torch.jit",), 4), Bar(("sb3 predict",), 20)),
    case(256, (OURS, *PEERS, "BLAS products"), Bar(("torch.jit",), 1), Bar(("BLAS products",), 0.8)),
    Case(
        "a decision, NatureCNN",
        "decide",
        "act",
        PICTURES,
        (C, OURS, "onnxruntime", "torch.jit"),
        (Bar(("onnxruntime",), 1),),
    ),
    Case(
        "import, load, first action",
        "begin",
        "act",
        {"inputs": 17, "actions": 6},
        (OURS, "onnxruntime"),
        (Bar(at_most=0.06),),
    ),
]


def test_decisions(measure, case, library):
    measure(case, library)
