"""Every kind of value through every operation of ``Batch``: the same, apart from docs/differences.md."""

import pickle
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("h5py")

from parity.peer import TIANSHOU, needs_tianshou
from parity.value_sweep import Machine, makers, outcomes

SWEEP = Path(__file__).with_name("value_sweep.py")
DOCUMENT = Path(__file__).parents[2] / "docs" / "differences.md"
CHUNK = 40

pytestmark = needs_tianshou

Outcome = tuple[Any, ...]


def fails(outcome: Outcome, *names: str) -> bool:
    return outcome[0] == "error" and (not names or outcome[1] in names)


def of(*kinds: str) -> Callable[[str, str, Outcome, Outcome], bool]:
    return lambda kind, _operation, _ours, _theirs: kind in kinds


WITH_OTHERS = (
    "stack with array", "stack with 1", "stack with tensor", "cat with array",
    "cat with array 2d", "cat with tensor",
)  # fmt: skip
COPIES = (
    "deepcopy", "copy", "pickle", "pickle row", "empty", "empty row",
    "Batch(b, copy)", "mean", "+1", "+b", "*2", "/2", "sum",
)  # fmt: skip
SETTING = ("ints[", "batch[", "tensor[", "f4 2d[", "objects[", "[v]")

#: Each documented difference: its name in docs/differences.md, and when an operation on a value may show it.
DIFFERENCES: dict[str, Callable[[str, str, Outcome, Outcome], bool]] = {
    "a graph, or other object with a length": of("graph", "graphs", "graph and 1", "chainmap"),
    '`[1, "x"]` as a field': lambda kind, operation, _ours, _theirs: (
        kind in {"list str 1", "tuples mixed", "dicts mixed"} or operation == "stack with 1"
    ),
    "a tensor and a string": of("tensor and str"),
    "`to_numpy` of bfloat16 tensors": lambda kind, operation, ours, theirs: (
        kind == "t bf16" and operation.startswith("to_numpy") and not fails(ours) and fails(theirs, "TypeError")
    ),
    "tensors in a collection": of("tensor deque", "tensor set", "tensor dict values"),
    "`from_hdf5` of pickled objects": lambda _kind, operation, ours, _theirs: (
        operation.startswith("hdf5") and fails(ours) and "allow_pickle=True" in ours[2]
    ),
    "tensors of no axes or no rows, arrays of strings": lambda _kind, operation, _ours, theirs: (
        operation.startswith("hdf5") and (fails(theirs) or "bytes" in str(theirs) or "(0,)" in str(theirs))
    ),
    "length of a batch with an object among the fields": lambda _kind, _operation, ours, theirs: (
        fails(theirs, "AttributeError") and fails(ours, "TypeError", "ValueError") and "'ndim'" in theirs[2]
    ),
    "a field that is a Batch in some batches and an array in others": lambda _kind, operation, _ours, _theirs: (
        operation in WITH_OTHERS
    ),
    "stacking along a nonexistent axis": lambda _kind, operation, ours, _theirs: (
        operation == "stack 1 axis" and fails(ours, "ValueError")
    ),
    "iterating over a batch of empty batches": lambda _kind, operation, ours, _theirs: (
        operation in {"iter", "stack v"} and ours == ("ok", ("list", []) if operation == "iter" else ("batch", []))
    ),
    "copies of object arrays": lambda kind, operation, _ours, _theirs: (
        operation in COPIES or (kind == "big" and operation == "hdf5 batch")
    ),
    "a partial field of numeric objects": lambda kind, operation, ours, _theirs: (
        kind in {"big", "decimal", "fraction"}
        and operation.startswith(("stack partial", "stack with empty"))
        and not fails(ours)
    ),
    "what only NumPy 1 accepts": lambda kind, operation, ours, theirs: (
        (fails(ours, "IndexError") and operation == "[list far]") or (kind == "big" and operation in {"+v", "*v", "/v"})
    ),
    "dtypes of other byte orders; of times": lambda kind, operation, ours, _theirs: (
        kind in {"1d >f8", "td"}
        and operation.startswith(("create_value", "alloc", "stack", "cat", "repr"))
        and not fails(ours)
    ),
    "a list of dicts as a field, such as infos, of which some are empty": of("dicts and empty"),
    "which error is raised when several things are wrong": lambda _kind, operation, ours, theirs: (
        fails(ours) and fails(theirs) and operation.startswith(SETTING)
    ),
    "a tuple, or a list of tensors, named `state`": lambda _kind, operation, _ours, _theirs: (
        operation == "Batch(state=v)"
    ),
    "keys that are not strings in `update`": of("dict int keys"),
    "`to_torch` of read-only arrays; of arrays with negative strides": of("reversed"),
    "order of fields after `cat`, `stack`": lambda kind, operation, _ours, _theirs: (
        operation == "repr" and kind in {"dicts keys", "dicts nested keys"}
    ),
    "reprs that name addresses": lambda _kind, operation, _ours, theirs: (
        operation == "repr" and " at 0x" in str(theirs)
    ),
    "objects that NumPy makes arrays of in its own way": of(
        "memoryview", "np void", "np dt", "t sparse", "struct", "rec"
    ),
}
#: Of these no page needs to tell.
PLAIN = {
    "reprs that name addresses",
    "objects that NumPy makes arrays of in its own way",
    "which error is raised when several things are wrong",
}


def theirs_of(first: int) -> dict[tuple[str, str], Outcome]:
    command = [str(TIANSHOU), "-W", "ignore", str(SWEEP), "tianshou", str(first), str(CHUNK)]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return pickle.loads(done.stdout)


def same(ours: Outcome, theirs: Outcome) -> bool:
    return ours[:2] == theirs[:2] if fails(ours) and fails(theirs) else ours == theirs


def kinds() -> int:
    return sum(1 for _ in makers(Machine("rlfast").Batch)) if TIANSHOU else CHUNK


@pytest.mark.parametrize("first", range(0, kinds(), CHUNK))
def test_the_same_operations_give_the_same(first: int) -> None:
    ours, theirs = outcomes("rlfast", first, CHUNK), theirs_of(first)
    assert ours.keys() == theirs.keys()
    different = [key for key in ours if not same(ours[key], theirs[key])]
    unexplained = [
        f"{key}\nours:   {ours[key]}\ntheirs: {theirs[key]}"
        for key in different
        if not any(may(*key, ours[key], theirs[key]) for may in DIFFERENCES.values())
    ]
    assert not unexplained, "\n".join(unexplained[:20])
    assert len(different) < len(ours) / 5


def test_each_difference_is_documented() -> None:
    assert [name for name in DIFFERENCES if name not in DOCUMENT.read_text() and name not in PLAIN] == []
