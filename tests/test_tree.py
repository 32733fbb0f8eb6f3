"""Directions in the tree that no compiler checks; those between Python layers are import-linter's (`make lint`)."""

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PYTHON_CRATES = {"pyo3", "pyo3-ffi", "pyo3-macros", "numpy", "rlfast-python"}


def reachable(crate: str) -> set[str]:
    """The crates that ``crate`` stands on, through any number of steps, tests and build scripts included."""
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    needs: dict[str, set[str]] = {}
    for package in lock["package"]:  # two versions of a crate count as one: the wider reading
        names = {line.split()[0] for line in package.get("dependencies", [])}
        needs.setdefault(package["name"], set()).update(names)
    seen, todo = set(), [crate]
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo.extend(needs[name])
    return seen - {crate}


@pytest.mark.parametrize("crate", ["rlfast-core", "rlfast-envs"])
def test_python_is_unknown_below_its_crate(crate: str) -> None:
    assert reachable(crate) & PYTHON_CRATES == set()


def test_the_check_would_see_python() -> None:
    assert {"pyo3", "numpy", "rlfast-core"} <= reachable("rlfast-python")


def test_the_core_stands_on_no_other_crate_of_ours() -> None:
    assert {c for c in reachable("rlfast-core") if c.startswith("rlfast")} == set()
