"""Mutation testing: changes sources a token at a time, with mutmut, and runs the tests that mirror them.

``python tests/mutation/run.py [AREA ...]``. A run that was stopped goes on where it was. After a change of a function
its mutants alone are tried again, and after a change of the tests those that lived. The exit status is 1 when a mutant
lives that ``survivors.toml`` gives no reason for. The work is done in copies of the sources, under ``build/mutation``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "mutation"
SURVIVORS = Path(__file__).with_name("survivors.toml")
SECONDS = 6  # a mutant is stuck when its tests take ten times as long as they took, and ten times this
UNSEEN = ("survived", "no tests")
LIVED = (0, 5, 33)  # the exit statuses that mutmut notes for these: all tests passed, or there were none


@dataclass(frozen=True)
class Area:
    """Sources, by patterns under ``python``, and the tests that mirror them, but for those with a word in ``skip``.

    What is skipped takes many seconds and sees little that the others do not.
    """

    sources: tuple[str, ...]
    tests: tuple[str, ...]
    skip: tuple[str, ...] = ()


GRAPHS = ("graph", "compiled")  # tests of torch.compile
AREAS = {
    "functional": Area(("rlfast/functional/*.py",), ("tests/functional",)),
    "collect": Area(
        ("rlfast/data/collect/*.py",),
        ("tests/data/collect", "tests/data/test_collector_hooks.py", "tests/data/test_random_actions.py"),
        ("right_mean",),
    ),
    "checkpoint": Area(
        ("rlfast/experiment/checkpoint.py",),
        ("tests/experiment/test_checkpoint.py", "tests/experiment/test_resumed_state.py"),
        ("kill_while", "random_points", "[4-", "[7-", "[1-native", "[1-prioritized", "[1-off-policy"),
    ),
    "trainer": Area(("rlfast/trainer/*.py",), ("tests/trainer",), ("ratio_of_updates", "threads_of_torch")),
    "policy": Area(
        (
            "rlfast/policy/*.py",
            "rlfast/policy/components/*.py",
            "rlfast/policy/learners/*.py",
            "rlfast/policy/learners/*/*.py",
        ),
        ("tests/policy",),
        (*GRAPHS, "foreign", "learns_a_chain"),
    ),
    "algorithms": Area(("rlfast/policy/modelfree/*.py",), ("tests/policy/modelfree",), (*GRAPHS, "learns_a_chain")),
}


@dataclass(frozen=True)
class Mutant:
    """One change of one function: lines that went, and lines that came in their place."""

    function: str
    was: str
    becomes: str


def prepare(name: str, area: Area) -> Path:
    """A tree in which mutmut finds its sources under ``src``; files that are as they were keep their times."""
    tree = BUILD / name
    _mirror(ROOT / "python", tree / "src")
    if _mirror(ROOT / "tests", tree / "tests"):
        _forget(tree)
    _drop_stale(tree, area.sources)
    (tree / "mutants" / "src").mkdir(parents=True, exist_ok=True)  # Python forgets paths that are missing at its start
    shutil.copy2(ROOT / "README.md", tree)
    skipped = ("-k", f"not ({' or '.join(area.skip)})") if area.skip else ()
    settings = {
        "source_paths": ["src"],
        "only_mutate": [f"src/{pattern}" for pattern in area.sources],
        "also_copy": ["README.md"],
        "pytest_add_cli_args": ["-p", "no:cacheprovider", "-p", "quick_first", "--timeout", "0", *skipped],
        "pytest_add_cli_args_test_selection": [*area.tests],
        "timeout_multiplier": 10.0,
        "timeout_constant": float(SECONDS),
        "use_git_change_detection": False,
        "process_isolation": "forkserver",  # each run in a fresh process: hypothesis and torch keep what they have seen
    }
    table = "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
    (tree / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text() + "\n[tool.mutmut]\n" + table)
    return tree


def _mirror(source: Path, target: Path) -> bool:
    """Makes ``target`` a copy of ``source``, touching nothing that is the same already; whether anything was not."""
    wanted, changed = set(), False
    for folder, _, names in os.walk(source):  # links are not followed: `_bench` is one
        for name in names:
            path = Path(folder, name)
            if name.endswith((".py", ".pyi", ".so", ".pyd", ".toml", ".json", ".txt", ".md")):
                wanted.add(path.relative_to(source))
    for there in [path for path in target.rglob("*") if path.is_file() and path.relative_to(target) not in wanted]:
        there.unlink()
        changed = True
    for name in wanted:
        old, new = target / name, source / name
        if not old.exists() or old.read_bytes() != new.read_bytes():
            old.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(new, old)
            changed = True
    return changed


def _drop_stale(tree: Path, mutated: tuple[str, ...]) -> None:
    """Removes mutmut's copies of sources and of the engine that have changed: it renews those alone that it mutates."""
    copies = tree / "mutants" / "src"
    for copy in [path for path in copies.rglob("*") if path.is_file() and path.suffix != ".meta"]:
        name = copy.relative_to(copies)
        new = tree / "src" / name
        if any(name.match(pattern) for pattern in mutated):
            continue
        if not new.exists() or new.read_bytes() != copy.read_bytes():
            copy.unlink()


def _forget(tree: Path) -> None:
    """Makes mutmut try again what lived, with the tests that there are now."""
    shutil.rmtree(tree / "mutants" / "tests", ignore_errors=True)
    (tree / "mutants" / "mutmut-stats.json").unlink(missing_ok=True)
    for notes in (tree / "mutants" / "src").rglob("*.meta"):
        noted = json.loads(notes.read_text(encoding="utf-8"))
        statuses = noted["exit_code_by_key"]
        noted["exit_code_by_key"] = {key: None if status in LIVED else status for key, status in statuses.items()}
        notes.write_text(json.dumps(noted), encoding="utf-8")


def mutmut(tree: Path, *arguments: str, show: bool = False) -> str:
    """Runs mutmut in a tree; what it wrote, unless it shall be shown.

    :raises RuntimeError: it failed.
    """
    environment = os.environ | {"PYTHONPATH": f"{tree / 'mutants' / 'src'}{os.pathsep}{Path(__file__).parent}"}
    done = subprocess.run(
        [sys.executable, "-m", "mutmut", *arguments],
        cwd=tree,
        env=environment,
        stdout=None if show else subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"mutmut {' '.join(arguments)} failed in {tree}: {done.returncode}\n{done.stdout or ''}")
    return done.stdout or ""


def unseen(tree: Path) -> list[Mutant]:
    """The mutants that no test sees, or that no test runs."""
    lines = [line.strip().rsplit(": ", 1) for line in mutmut(tree, "results").splitlines() if ": " in line]
    return [parsed(name, mutmut(tree, "show", name)) for name, status in lines if status in UNSEEN]


def parsed(name: str, shown: str) -> Mutant:
    """What ``mutmut show`` says of a mutant such as ``rlfast.functional.losses.x_dqn_loss__mutmut_3``."""
    function = name.rsplit("__mutmut_", 1)[0].replace(".x_", ".").replace(".xǁ", ".").replace("ǁ", ".")
    lines = [line for line in shown.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    was, becomes = ("\n".join(line[1:].strip() for line in lines if line.startswith(sign)) for sign in ("-", "+"))
    return Mutant(function, was, becomes)


def source_of(function: str) -> Path:
    """The file of a function such as ``rlfast.functional.losses.td_error``, or of a method of a class in it."""
    parts = function.split(".")
    for length in range(len(parts), 0, -1):
        path = ROOT.joinpath("python", *parts[:length])
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.exists():
                return file
    raise FileNotFoundError(f"{function} is in no module")


def known() -> dict[Mutant, str]:
    """Mutants that may live, and why."""
    entries = tomllib.loads(SURVIVORS.read_text(encoding="utf-8")).get("survivor", [])
    return {Mutant(one["function"], one["was"], one["becomes"]): one["because"] for one in entries}


def main(names: list[str]) -> int:
    """Runs the areas of these names, or all."""
    if missing := set(names) - AREAS.keys():
        sys.stderr.write(f"no area is called {', '.join(sorted(missing))}: there are {', '.join(AREAS)}\n")
        return 2
    reasons, living = known(), 0
    for name in names or AREAS:
        tree = prepare(name, AREAS[name])
        mutmut(tree, "run", "--max-children", os.environ.get("MUTATION_PROCESSES", "1"), show=True)
        for mutant in unseen(tree):
            reason = reasons.get(mutant)
            living += reason is None
            change = "".join(
                f"  {sign} {line}\n"
                for sign, text in (("-", mutant.was), ("+", mutant.becomes))
                for line in text.split("\n")
            )
            sys.stdout.write(f"{mutant.function}: {reason or 'LIVES'}\n{change}")
    sys.stdout.write(f"{living} mutants live without a reason\n")
    return 1 if living else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
