"""Mutation testing: changes sources a token at a time, as mutmut does, and runs the tests that mirror them.

``PYTHONPATH=tests python -m mutation.run [AREA[:WORD] ...]`` tries areas, or the mutants with a word in their names,
such as a module. A run that was stopped goes on where it was: a mutant that a test has seen is tried again when its
function changes, and one that lived each time. The exit status is 1 when a mutant lives that ``survivors.toml``
gives no reason for. The work is done on a copy of the sources, under ``build/mutation``.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import sources
from .sources import Mutant, environment, mutate

if TYPE_CHECKING:
    from collections.abc import Mapping

BUILD = sources.ROOT / "build" / "mutation"
SURVIVORS = Path(__file__).with_name("survivors.toml")


@dataclass(frozen=True)
class Area:
    """Sources, by patterns under ``python``, and the tests that mirror them, but for those with a word in ``skip``.

    What is skipped takes many seconds and sees little that the others do not.
    """

    sources: tuple[str, ...]
    tests: tuple[str, ...]
    skip: tuple[str, ...] = ()

    def pytest(self, tree: Path) -> list[str]:
        """The command that runs the tests on the sources in ``tree``."""
        skipped = ["-k", f"not ({' or '.join(self.skip)})"] if self.skip else []
        quiet = [
            "-q",
            "-x",
            "--tb",
            "native",
            "-p",
            "no:cacheprovider",
            "--timeout",
            "0",
            "--basetemp",
            str(tree.parent / "tmp"),
        ]
        return [sys.executable, "-m", "pytest", *quiet, *skipped, *self.tests]


GRAPHS = (  # tests that torch compiles for
    "as_one_graph",
    "a_graph_gives_the_same",
    "within_a_graph",
    "weights_count_in_graphs",
    "eager_and_compiled_agree",
    "compiled_update_with_masks",
    "copies_learn_for_themselves",
    "weights_of_losses_may_change",
)
AREAS = {
    "functional": Area(("rlfast/functional/*.py",), ("tests/functional",)),
    "collect": Area(
        ("rlfast/data/collect/*.py",),
        ("tests/data/collect", "tests/data/test_collector_hooks.py", "tests/env/test_random_actions.py"),
        ("right_mean",),
    ),
    "checkpoint": Area(
        ("rlfast/experiment/checkpoint.py",),
        (
            "tests/experiment/test_checkpoint.py",
            "tests/experiment/test_normalization.py",
            "tests/experiment/test_resumed_state.py",
        ),
        ("kill_while", "random_points", "process", "exactly", "own_rewards", "[4-", "[7-", "[1-o", "[1-n", "[1-p"),
    ),
    "trainer": Area(("rlfast/trainer/*.py",), ("tests/trainer",), ("ratio_of_updates", "threads_of_torch")),
    "policy": Area(
        ("rlfast/policy/*.py", "rlfast/policy/components/*.py"),
        ("tests/policy",),
        (*GRAPHS, "test_foreign", "learns_a_chain"),
    ),
    "products": Area(("rlfast/utils/torch_private/products.py",), ("tests/utils/torch_private/test_products.py",)),
    "algorithms": Area(("rlfast/policy/modelfree/*.py",), ("tests/policy/modelfree",), (*GRAPHS, "learns_a_chain")),
}


def tried(name: str, area: Area, reasons: Mapping[Mutant, str], word: str = "") -> list[tuple[Mutant, int]]:
    """The mutants of an area, and how the tests of each ended: 0 where none saw it, below 0 where one was stuck.

    :param reasons: Those that may live, which are tried last.
    :param word: Mutants without it in their names are left out.
    :raises RuntimeError: the tests fail without a mutant.
    """
    tree, tasks, results = (BUILD / name / part for part in ("tree", "tasks.json", "results.jsonl"))
    every = mutate(tree, area.sources)
    mutants = {key: one for key, one in every.items() if word in key}
    notes = noted(results)
    kept = [notes[key] for key, (_, digest) in every.items() if key in notes and notes[key]["digest"] == digest]
    seen = {one["name"]: one for one in kept if one["status"]}
    results.write_text("".join(json.dumps(one) + "\n" for one in seen.values()), encoding="utf-8")
    left = [(key, digest) for key, (_, digest) in mutants.items() if key not in seen]
    left.sort(key=lambda task: mutants[task[0]][0] in reasons)  # what is known to live, and takes all tests, comes last
    tasks.write_text(json.dumps(left), encoding="utf-8")
    if left:
        sys.stdout.write(f"{name}: {len(mutants)} mutants, {len(left)} of them to be tried\n")
        files = {"MUTATION_TASKS": str(tasks), "MUTATION_RESULTS": str(results), "MUTATION_STATE": state(area)}
        _tests(area, tree, "-p", "mutation.forks", log=BUILD / name / "log", **files)
    notes = noted(results)
    if missing := mutants.keys() - notes.keys():
        raise RuntimeError(f"{len(missing)} mutants were not tried: see {BUILD / name / 'log'}")
    for key, one in notes.items():
        if key in mutants and one["imported"] and not one["status"]:  # called as modules load, before the fork
            one["status"] = _tests(area, tree, log=BUILD / name / "log_of_one", MUTANT_UNDER_TEST=key)
    return [(mutant, notes[key]["status"]) for key, (mutant, _) in mutants.items()]


def _tests(area: Area, tree: Path, *options: str, log: Path, **variables: str) -> int:
    """Runs the tests of an area on the sources in ``tree``: their exit status."""
    command = [*area.pytest(tree), *options]
    with log.open("w") as out:
        return subprocess.run(
            command, cwd=sources.ROOT, env=environment(tree) | variables, stdout=out, stderr=out, check=False
        ).returncode


def state(area: Area) -> str:
    """A digest of the package and of the tests of an area: while it is the same, tests need not be watched again."""
    folders = (sources.ROOT / path for path in ("python", *area.tests))
    files = sorted(file for path in folders for file in ((path,) if path.is_file() else path.rglob("*.py")))
    digest = hashlib.sha256(repr(area).encode())
    for file in files:
        digest.update(str(file).encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def noted(results: Path) -> dict[str, dict[str, Any]]:
    """What was noted of mutants that were tried, by their names."""
    lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else ()
    return {one["name"]: one for one in map(json.loads, lines)}


def known() -> dict[Mutant, str]:
    """Mutants that may live, and why."""
    entries = tomllib.loads(SURVIVORS.read_text(encoding="utf-8")).get("survivor", [])
    return {Mutant(one["function"], one["was"], one["becomes"]): one["because"] for one in entries}


def main(names: list[str]) -> int:
    """Runs the areas of these names, or all."""
    parts = [name.partition(":")[::2] for name in names or AREAS]
    if missing := {name for name, _ in parts} - AREAS.keys():
        sys.stderr.write(f"no area is called {', '.join(sorted(missing))}: there are {', '.join(AREAS)}\n")
        return 2
    reasons, living = known(), 0
    for name, word in parts:
        counts: Counter[str] = Counter()
        for mutant, status in tried(name, AREAS[name], reasons, word):
            reason = reasons.get(mutant)
            counts["stuck" if status < 0 else "seen" if status else "alive with a reason" if reason else "alive"] += 1
            if not status and not reason:
                lines = [f"  - {line}" for line in mutant.was.split("\n")]
                lines += [f"  + {line}" for line in mutant.becomes.split("\n")]
                sys.stdout.write("\n".join([mutant.function, *lines, ""]))
        living += counts["alive"]
        sys.stdout.write(f"{name}: {', '.join(f'{counts[what]} {what}' for what in sorted(counts))}\n")
    return 1 if living else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
