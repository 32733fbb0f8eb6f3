"""Every public name of Tianshou 1.0, and those that 1.1 and 1.2 added, is here, or there is a reason why it is not."""

import fnmatch
import functools
import tomllib
from collections import defaultdict

import pytest

pytest.importorskip("torch")

from names.resolve import HERE, Line, differences, lacks, parameters, table

REASONS = {p: why for why, part in tomllib.loads((HERE / "reasons.toml").read_text()).items() for p in part["paths"]}


@functools.cache
def reason(path: str) -> str | None:
    """The pattern that says why the name is not here."""
    return next((pattern for pattern in REASONS if fnmatch.fnmatchcase(path, pattern)), None)


def missing(line: Line) -> list[str]:
    """What rlfast has not of a line: the path, or that of parameters."""
    if lacks(line):
        return [line.path]
    return [f"{line.path}({name})" for name, _ in differences(line)]


@functools.cache
def modules() -> dict[str, list[Line]]:
    found = defaultdict(list)
    known = {line.path for line in table() if line.kind == "module"}
    for line in table():
        module = line.path
        while module and module not in known:
            module = module.rpartition(".")[0]
        found[module].append(line)
    return dict(found)


@pytest.mark.parametrize("module", modules())
def test_names_are_here_or_have_a_reason(module):
    gone = [path for line in modules()[module] for path in missing(line) if reason(path) is None]
    assert gone == [], "these names of Tianshou are not here, and reasons.toml does not say why"


@functools.cache
def here() -> list[str]:
    """The paths of all names and parameters that are taken here as Tianshou takes them."""
    found = []
    for line in table():
        if lacks(line):
            continue
        found.append(line.path)
        other = {name for name, _ in differences(line)}
        names = {name for name, _ in parameters(line.parameters or "()")}
        found += [f"{line.path}({name})" for name in names - other]
    return found


@pytest.mark.parametrize("pattern", REASONS)
def test_a_reason_hides_nothing_that_is_here(pattern):
    hidden = fnmatch.filter(here(), pattern)
    assert hidden == [], "reasons.toml says why these are missing: name what is missing, and no more"
