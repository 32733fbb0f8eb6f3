"""Puts faults into a copy of the sources, one at a time, and runs the tests that should see them.

``python tests/mutants/run.py [PART OF A NAME ...]``. The exit status is 1 when a mutant lives that has no reason to.
The checkout itself is never changed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("python", "tests", "pyproject.toml", "README.md")


def tests_pass(tree: Path, tests: list[str]) -> bool:
    """Whether the tests pass in a tree; those of them that are named.

    :raises RuntimeError: they could not be run at all.
    """
    environment = os.environ | {"PYTHONPATH": str(tree / "python"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):  # wrong arguments, or nothing collected: that kills no mutant
        raise RuntimeError(f"{' '.join(tests)} could not be run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.returncode == 0


def lives(tree: Path, mutant: dict[str, object]) -> bool:
    """Whether a mutant passes its tests.

    :raises RuntimeError: the text that it replaces is not there once.
    """
    path = tree / str(mutant["file"])
    whole = path.read_text()
    if whole.count(str(mutant["old"])) != 1:
        raise RuntimeError(f"{mutant['name']}: {mutant['old']!r} is {whole.count(str(mutant['old']))} times in {path}")
    path.write_text(whole.replace(str(mutant["old"]), str(mutant["new"])))
    try:
        return tests_pass(tree, [str(test) for test in mutant["tests"]])  # type: ignore[attr-defined]
    finally:
        path.write_text(whole)


def main(wanted: list[str]) -> int:
    """Runs the mutants whose names have one of ``wanted`` in them, or all."""
    mutants = tomllib.loads((Path(__file__).parent / "mutants.toml").read_text())["mutant"]
    chosen = [one for one in mutants if not wanted or any(part in one["name"] for part in wanted)]
    if not chosen:
        sys.stderr.write(f"no mutant is called like {wanted}\n")
        return 2
    survivors = []
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        for name in COPIED:
            source = ROOT / name
            copy = shutil.copytree if source.is_dir() else shutil.copy
            tree.mkdir(exist_ok=True)
            copy(source, tree / name)
        for tests in {tuple(one["tests"]) for one in chosen}:  # a test that fails anyway would seem to kill
            if not tests_pass(tree, [*tests]):
                raise RuntimeError(f"{' '.join(tests)} fails without any mutant")
        for mutant in chosen:
            alive = lives(tree, mutant)
            reason = mutant.get("lives_because", "")
            sys.stdout.write(f"{'lives' if alive else 'dies':<6}{mutant['name']}{f' ({reason})' if alive else ''}\n")
            sys.stdout.flush()
            if alive and not reason:
                survivors.append(mutant["name"])
    sys.stdout.write(f"{len(chosen)} mutants, {len(survivors)} live without a reason\n")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
