"""Random programs on Tianshou 1.0's ``Batch`` and on ours: the same outcomes apart from docs/differences.md."""

import pickle
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from parity.batch_program import COMBINING, outcomes, program
from parity.peer import TIANSHOU, needs_tianshou

PROGRAM = Path(__file__).with_name("batch_program.py")
DOCUMENT = Path(__file__).parents[2] / "docs" / "differences.md"
LENGTH = 40

pytestmark = needs_tianshou


def both_fail(ours: Any, theirs: Any) -> bool:
    return ours[0] == theirs[0] == "error"


#: Each documented difference: its name in docs/differences.md, and when an operation may show it.
DIFFERENCES: dict[str, Callable[[tuple[Any, ...], Any, Any], bool]] = {
    "iterating over a batch of empty batches": lambda step, ours, theirs: (
        step[0] == "rows" and theirs[1] == "OverflowError" and ours[:2] == ("ok", ("list", []))
    ),
    "length of a batch with an object among the fields": lambda step, ours, theirs: (
        both_fail(ours, theirs) and theirs[1] == "AttributeError" and step[0] in {"len", "split", "cat", "cat_"}
    ),
    "which error is raised when several fields are wrong": lambda step, ours, theirs: (
        (both_fail(ours, theirs) or (step[0] == "rows" and "error" in {ours[0], theirs[0]}))
        and (
            step[0] in COMBINING
            or step[0] in {"mean", "add", "iadd", "mul", "div", "set rows", "get rows", "set rows to rows", "rows"}
        )
    ),
    "a field that is a Batch in some batches and an array in others": lambda _step, ours, _theirs: "mixed" in ours[3],
    "`cat_` and `stack_` onto a batch with other fields": lambda step, ours, _theirs: (
        step[0] in {"cat_", "stack_"} and "partial" in ours[3]
    ),
    "dtype of a padded field": lambda _step, ours, _theirs: "dtypes" in ours[3],
    "stacking different shapes": lambda step, ours, _theirs: (
        "shapes" in ours[3] and step[0] in {"stack", "stack_", "new from list"}
    ),
    "stacking along a nonexistent axis": lambda step, ours, theirs: (
        step[0] == "stack" and step[3] != 0 and ours[:2] == ("error", "ValueError") and theirs[0] == "ok"
    ),
    "`split(-1)` of no rows": lambda step, ours, theirs: (
        step[0] == "split" and step[2] == -1 and ours[:2] == ("ok", ("list", [])) and theirs[1] == "AssertionError"
    ),
    "what only NumPy 1 accepts": lambda _step, ours, theirs: (
        theirs[0] == "ok"
        and ours[0] == "error"
        and ("out of bounds" in ours[2] or ours[2] == "setting an array element with a sequence.")
    ),
    "copies of object arrays": lambda step, ours, theirs: (
        step[0] in {"deepcopy", "pickle", "empty", "add", "add itself", "mul", "div", "mean"}
        and "'object'" in str((ours, theirs))
    ),
    "stacking rows of a ragged array": lambda step, ours, _theirs: step[0] in COMBINING and "('list'," in str(ours),
    "padding a field that is longer than its batch": lambda step, ours, _theirs: (
        step[0] in {"cat", "cat_"} and ours[0] == "error" and "cannot fill field" in ours[2]
    ),
    "assigning a Batch to rows of an array": lambda step, ours, _theirs: (
        step[0] in {"set rows", "set rows to rows"} and ours[0] == "error" and "the value has a Batch for it" in ours[2]
    ),
    "stacking arrays of tensors along an axis": lambda step, ours, _theirs: (
        step[0] == "stack" and step[3] != 0 and ours[0] == "ok" and "'object'" in str(ours) and "'tensor'" in str(ours)
    ),
    "arrays of tensors": lambda step, _ours, theirs: (
        step[0] in {*COMBINING, "empty", "deepcopy", "pickle"}
        and theirs[0] == "error"
        and ("arrays of tensors" in theirs[2] or "list/tuple of tensors" in theirs[2])
    ),
}


def theirs_of(first: int, count: int) -> list[Any]:
    command = [str(TIANSHOU), "-W", "ignore", str(PROGRAM), "tianshou", str(first), str(count), str(LENGTH)]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return pickle.loads(done.stdout)


def same(ours: Any, theirs: Any) -> bool:
    # After an error both sides are as before it, so that only its type counts; else the result and the batch changed.
    return ours[:2] == theirs[:2] if both_fail(ours, theirs) else ours[:3] == theirs[:3]


def compare(first: int, count: int) -> tuple[Counter[str], Counter[str]]:
    """How often each operation was found the same, and each difference found."""
    agreed: Counter[str] = Counter()
    differed: Counter[str] = Counter()
    for seed, (ours, theirs) in enumerate(
        zip(outcomes("rlfast", first, count, LENGTH), theirs_of(first, count), strict=True), first
    ):
        for number, step in enumerate(program(seed, LENGTH)):
            if same(ours[number], theirs[number]):
                agreed[step[0]] += 1
                continue
            reasons = [name for name, may in DIFFERENCES.items() if may(step, ours[number], theirs[number])]
            assert reasons, f"program {seed}, step {number}: {step}\nours:   {ours[number]}\ntheirs: {theirs[number]}"
            differed[reasons[0]] += 1
            if not both_fail(ours[number], theirs[number]):
                break  # from here on the two work on different values
    return agreed, differed


def test_the_same_programs_give_the_same() -> None:
    agreed, differed = compare(0, 250)
    assert agreed.total() > 5000, agreed
    assert agreed.total() > 20 * differed.total(), differed
    assert min(agreed.values()) > 20, agreed  # every operation was compared


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_many_programs_give_the_same() -> None:
    agreed = sum((compare(first, 1000)[0] for first in range(10_000, 14_000, 1000)), Counter())
    assert agreed.total() > 100_000, agreed


def test_each_difference_is_documented() -> None:
    assert [name for name in DIFFERENCES if name not in DOCUMENT.read_text()] == []
