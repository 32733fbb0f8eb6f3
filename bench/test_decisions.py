"""The time of a decision of an exported policy, beside other ways to let the same network act, on one core.

Each is one call from Python, but for the header in C.
"""

from bench.harness import Bar, Case

OURS, C = "rlfast exported", "rlfast exported to C"
PEERS = ("onnxruntime", "torch.jit", "sb3 predict", "NumPy by hand")


def case(name: str, libraries: tuple[str, ...], *bars: Bar, inputs: int = 17, rows: int = 1) -> Case:
    return Case(name, "decide", "act", {"inputs": inputs, "actions": 6, "rows": rows}, libraries, bars)


CASES = [
    case(
        "a decision, MLP 2 x 64",
        (OURS, *PEERS),
        *(Bar(("NumPy by hand",), 2), Bar(("torch.jit",), 4), Bar(("sb3 predict",), 20), Bar(at_most=3e-6)),
    ),
    case("a decision in C, MLP 2 x 64", (C, "onnxruntime"), Bar(at_most=1e-6)),
    case(
        "256 decisions, MLP 2 x 64",
        (OURS, *PEERS, "BLAS products"),
        *(Bar(("torch.jit",), 1), Bar(("BLAS products",), 0.8)),
        rows=256,
    ),
    case("a decision, NatureCNN", (OURS, "onnxruntime", "torch.jit"), inputs=0),
    case("a decision in C, NatureCNN", (C, "onnxruntime"), Bar(("onnxruntime",), 1), inputs=0),
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
