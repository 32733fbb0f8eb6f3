"""Checks within a minute whether a kernel became slower: ``python -m bench.guard [--update]``.

Each kernel's time is divided by that of a fixed NumPy computation, measured in turn with it, so that the quotient
depends little on the speed and load of the machine. ``results/guard.json`` has the last quotients, which ``--update``
replaces. The exit status is 1 if a quotient is more than ``LIMIT`` times the recorded one.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench.peers import rlfast as driver
from bench.report import machine, quantity, revision

RECORDED = Path(__file__).parent / "results" / "guard.json"
LIMIT = 1.3
ROUNDS = 25
SECONDS = 0.02
SMALL = {"obs_dim": 4, "act_dim": 0}
Operation = Callable[[int], Any]


def kernels() -> dict[str, Operation]:
    """Returns the kernels by name."""
    one, several = driver.add_one(4, 20_000), driver.add_vector(16, 17, 6, 64_000)
    sampled = driver.sample_rows(100_000, batch_sizes=[32, 256], **SMALL)
    wide = driver.sample_rows(20_000, 376, 17, [256])
    atari = driver.sample_atari(4_000, 8, [32])
    gae, nstep = driver.gae(2048, 16), driver.nstep(100_000, 16, 3, 256)
    return {
        "add 1 env f32[4]": one["add"],
        "add 1 env f32[4], keywords": one["keywords"],
        "add 1 env f32[4], empty info": one["add empty info"],
        "add 1 env f32[4], info of numbers": one["add info of numbers"],
        "add 16 envs f32[17]": several["add"],
        "add 16 envs f32[17], empty info": several["add empty info"],
        "add 16 envs f32[17], dicts": several["add dicts"],
        "add 8 envs Atari": driver.add_atari(8, 4_000)["add"],
        "sample f32[4] 100k x32": sampled["32"],
        "sample f32[4] 100k x256": sampled["256"],
        "sample f32[376] 20k x256": wide["256"],
        "sample Atari 4k x32": atari["32"],
        "prioritized sample+update x256": driver.prioritized(100_000, 256)["sample+update"],
        "sum tree sample+update x256": driver.tree(100_000, 256)["sample+update"],
        "n-step 3 x256": nstep["alone"],
        "GAE 2048x16": gae["kernel"],
        "GAE 32768, mixed floats": gae["kernel, mixed floats"],
    }


def reference() -> Operation:
    """Returns the reference, a NumPy computation with small calls, gathered rows and arithmetic."""
    rng = np.random.default_rng(0)
    rows, index = rng.random((100_000, 8), np.float32), rng.integers(0, 100_000, 256)
    out, small = np.empty((256, 8), np.float32), np.zeros(4, np.float32)

    def run(count: int) -> None:
        for _ in range(count):
            np.take(rows, index, axis=0, out=out, mode="clip")
            for _ in range(8):
                small[:] = 1.0
            np.cumsum(out, axis=0, out=out)

    return run


def seconds(operation: Operation, count: int) -> float:
    start = time.process_time()
    operation(count)
    return time.process_time() - start


def repetitions(operation: Operation) -> int:
    """Returns the number of calls that fill a round. It also warms up."""
    count = 1
    while (took := seconds(operation, count)) < SECONDS / 4:
        count *= 4
    return max(1, round(count * SECONDS / took))


def quotients(rounds: int = ROUNDS) -> dict[str, tuple[float, float]]:
    """Returns for each kernel the quotient of the shortest times, and its own time."""
    watched = kernels()
    base, found = reference(), {}
    base_count = repetitions(base)
    for name, operation in watched.items():
        count = repetitions(operation)
        ours, theirs = [], []
        for _ in range(rounds):
            ours.append(seconds(operation, count) / count)
            theirs.append(seconds(base, base_count) / base_count)
        found[name] = (min(ours) / min(theirs), min(ours))
    return found


def table(found: dict[str, tuple[float, float]], recorded: dict[str, float]) -> tuple[list[str], list[str]]:
    """Returns a line for each kernel, and the names of those that became slower."""
    lines, slower = [f"{'kernel':34}{'time':>10}{'quotient':>10}{'recorded':>10}{'change':>8}"], []
    for name, (quotient, own) in found.items():
        before = recorded.get(name)
        change = "new" if before is None else f"{quotient / before - 1:+.0%}"
        lines.append(f"{name:34}{quantity(own, 's'):>10}{quotient:10.3f}{before or 0.0:10.3f}{change:>8}")
        if before is not None and quotient > LIMIT * before:
            slower.append(name)
    return lines, slower


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--update", action="store_true", help=f"record the quotients in {RECORDED.name}")
    given = parser.parse_args(arguments)
    recorded = json.loads(RECORDED.read_text())["quotients"] if RECORDED.exists() else {}
    found = quotients()
    lines, slower = table(found, recorded)
    print("\n".join(lines))
    if given.update:
        values = {name: round(quotient, 4) for name, (quotient, _) in found.items()}
        content = {"revision": revision(), "machine": machine(), "quotients": values}
        RECORDED.write_text(json.dumps(content, indent=1) + "\n")
        print(f"recorded in {RECORDED}")
        return 0
    print(f"slower than {LIMIT}x the record: {', '.join(slower) or 'none'}")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
