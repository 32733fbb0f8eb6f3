"""Checks of the lines of ``table.txt`` against rlfast."""

import ast
import functools
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent


class Line(NamedTuple):
    path: str
    kind: str
    since: str
    parameters: str | None

    @property
    def owner(self) -> str:
        return self.path.rpartition(".")[0]

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]


def table() -> list[Line]:
    lines = []
    for text in (HERE / "table.txt").read_text().splitlines():
        path, kind, since, *call = text.split(" | ")
        lines.append(Line(path, kind, since, call[0] if call else None))
    return lines


MISSING = object()


@functools.cache
def find(path: str) -> Any:
    """The module or what it holds at ``path`` within rlfast, or MISSING."""
    parts = path.split(".")
    for cut in range(len(parts), -1, -1):
        try:
            found: Any = importlib.import_module(".".join(["rlfast", *parts[:cut]]))
        except ModuleNotFoundError:
            continue
        for name in parts[cut:]:
            found = MISSING if found is MISSING else getattr(found, name, MISSING)
        return found
    return MISSING


def lacks(line: Line) -> str | None:
    """What rlfast lacks of ``line``; None if nothing."""
    if line.kind == "module":
        return None if inspect.ismodule(find(line.path)) else "module"
    if line.kind in {"property", "attribute", "instance attribute"}:
        owner = find(line.owner)
        return None if owner is not MISSING and has_attribute(owner, line.name) else line.kind
    found = find(line.path)
    if found is MISSING:
        return line.kind
    return None


def has_attribute(cls: Any, name: str) -> bool:
    """Whether instances of ``cls`` have the attribute: of the class, declared, or set by one of its methods."""
    if hasattr(cls, name) or name in getattr(cls, "__dataclass_fields__", ()):
        return True
    for base in inspect.getmro(cls):
        if name in inspect.get_annotations(base):
            return True
        if base.__module__.startswith("rlfast") and name in attributes_set_in(base):
            return True
    return False


@functools.cache
def attributes_set_in(cls: type) -> set[str]:
    """What the methods of a class assign to ``self``."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError):
        return set()
    stored = (n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store))
    return {node.attr for node in stored if isinstance(node.value, ast.Name) and node.value.id == "self"}


def differences(line: Line) -> Iterator[tuple[str, str]]:
    """Each parameter of ``line`` that a call of ours does not take in the same way, and how ours differs."""
    found = find(line.path)
    if line.parameters is None or found is MISSING:
        return
    try:
        ours = inspect.signature(found).parameters
    except (ValueError, TypeError):
        yield "*", "has no signature"
        return
    bound = line.kind == "method" and not isinstance(inspect.getattr_static(find(line.owner), line.name), staticmethod)
    positional = [n for n, p in ours.items() if p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD}]
    if bound and positional and positional[0] in {"self", "cls"} and not inspect.ismethod(found):
        positional = positional[1:]
    by_place = line.kind != "parameters"
    for place, (name, default) in enumerate(parameters(line.parameters)):
        if name.startswith("*"):
            kinds = {"*": None, "*a": inspect.Parameter.VAR_POSITIONAL, "**": inspect.Parameter.VAR_KEYWORD}
            kind = kinds["**" if name.startswith("**") else "*a" if len(name) > 1 else "*"]
            by_place = False
            if kind is not None and not any(p.kind == kind for p in ours.values()):
                yield name, "missing"
        elif name not in ours:
            if not (line.name == "forward" and any(p.kind == p.VAR_KEYWORD for p in ours.values())):
                yield name, "missing"
        elif by_place and (place >= len(positional) or positional[place] != name):
            yield name, "at another place"
        elif default is not MISSING and _plain(ours[name].default) != _plain(default):
            yield name, f"{default!r} by default, ours {ours[name].default!r}"


def _plain(default: Any) -> Any:
    return tuple(default) if isinstance(default, list) else default


_PARAMETER = re.compile(
    r"""(\*{0,2}\w+|\*)(?:=((?:'[^']*'|"[^"]*"|\([^)]*\)|\[[^\]]*\]|[^,])+))?(?:,\ |$)""", re.VERBOSE
)


def parameters(call: str) -> Iterator[tuple[str, Any]]:
    """Name and default (MISSING: none, or no literal) of each parameter in the text of a call."""
    if call == "()":
        return
    for name, default in _PARAMETER.findall(call[1:-1]):
        try:
            yield name, ast.literal_eval(default) if default else MISSING
        except ValueError:
            yield name, MISSING
