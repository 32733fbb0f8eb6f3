"""Files in Tianshou's HDF5 layout that either library writes can be loaded by the other."""

from pathlib import Path

import pytest

from parity.peer import answers, needs_tianshou

KINDS = {
    "single": [6],
    "prioritized single": [6],
    "hindsight": [6],
    "vector": [6, 6],
    "prioritized": [6, 6],
    "cached": [9, 6, 6],
    "hindsight vector": [6, 6],
}
ENDS = ["", "terminated", "", "", "truncated", "", ""]

pytestmark = needs_tianshou


def adds(kind: str) -> list[list[object]]:
    rings = max(1, len(KINDS[kind]) - (kind == "cached"))
    return [
        ["add", [{"ring": ring, "now": 10 * ring + step, "rew": 0.5 * step, "end": end} for ring in range(rings)]]
        for step, end in enumerate(ENDS)
    ]


def questions(kind: str) -> list[list[object]]:
    asked = [["stored"], ["state"]]
    if "hindsight" not in kind:  # Tianshou's rewrites its storage when it is asked for rows
        asked += [["neighbours"], ["get", "obs", 2], ["all_rows"]]
    return asked + ([["priorities"]] if "prioritized" in kind else [])


def nearly(was: object, now: object) -> bool:
    """Equal, but for the last bits of weights and priorities: powers and roots are taken on the way."""
    if isinstance(was, dict) and isinstance(now, dict):
        return was.keys() == now.keys() and all(nearly(was[key], now[key]) for key in was)
    if isinstance(was, list) and isinstance(now, list):
        return len(was) == len(now) and all(map(nearly, was, now))
    return now == (pytest.approx(was, rel=1e-9) if isinstance(was, float) else was)


@pytest.mark.parametrize(("writer", "reader"), [("tianshou", "rlfast"), ("rlfast", "tianshou"), ("rlfast", "rlfast")])
def test_a_file_holds_the_same_buffer_for_both(tmp_path: Path, writer: str, reader: str) -> None:
    """One run of each library for all kinds: Tianshou takes seconds to compile."""
    written, read = [], []
    for kind, sizes in KINDS.items():
        path = str(tmp_path / f"{kind}.hdf5")
        change = [["reprioritize"]] if "prioritized" in kind else []
        operations = [*adds(kind), *change, ["save", path], *questions(kind)]
        written.append({"kind": kind, "options": {}, "sizes": sizes, "operations": operations})
        read.append({"kind": kind, "options": {}, "sizes": sizes, "load": path, "operations": questions(kind)})
    before = answers("buffer_driver.py", writer, written)
    after = answers("buffer_driver.py", reader, read)
    for kind, old, new in zip(KINDS, before, after, strict=True):
        for question, was, now in zip(questions(kind), old[-len(new) :], new, strict=True):
            assert nearly(was, now), (kind, question)
