"""Writes ``table.txt``: every public name of Tianshou 1.0, and those that 1.1 and 1.2 added.

    python tests/names/generate.py 1.0=FOLDER_OR_WHEEL 1.1=FOLDER_OR_WHEEL 1.2=FOLDER_OR_WHEEL > tests/names/table.txt

The sources are read, not run, so the packages need not be installed. A line is a path within the package, what it is,
the first version that has it, and the parameters of a call as that version has them; a second line lists parameters
that a later version added.
"""

import ast
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

PACKAGE = "tianshou"


def sources(place: str) -> Iterator[tuple[str, bool, str]]:
    """Each module's path within the package, whether it is a package itself, and its text."""
    path = Path(place)
    if path.is_file():
        with zipfile.ZipFile(path) as wheel:
            files = {n: wheel.read(n).decode() for n in wheel.namelist() if n.startswith(f"{PACKAGE}/")}
    else:
        files = {str(f.relative_to(path.parent)): f.read_text() for f in path.rglob("*.py")}
    for name in sorted(n for n in files if n.endswith(".py")):
        parts = name.removesuffix(".py").split("/")[1:]
        is_package = parts[-1] == "__init__"
        yield ".".join(parts[:-1] if is_package else parts), is_package, files[name]


def is_public(name: str) -> bool:
    return not name.startswith("_") or (name.startswith("__") and name.endswith("__") and name not in _PLUMBING)


_PLUMBING = {"__init__", "__post_init__", "__doc__", "__all__", "__new__", "__slots__", "__annotations__"}


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef, *, bound: bool) -> list[str]:
    """The parameters as in a signature, with defaults, without annotations."""
    a = function.args
    positional = [*a.posonlyargs, *a.args]
    defaults = [None] * (len(positional) - len(a.defaults)) + list(a.defaults)
    given = [_parameter(p.arg, d) for p, d in zip(positional, defaults, strict=True)]
    if bound:
        given = given[1:]
    if a.vararg:
        given.append("*" + a.vararg.arg)
    elif a.kwonlyargs:
        given.append("*")
    given += [_parameter(p.arg, d) for p, d in zip(a.kwonlyargs, a.kw_defaults, strict=True)]
    if a.kwarg:
        given.append("**" + a.kwarg.arg)
    return given


def _parameter(name: str, default: ast.expr | None) -> str:
    return name if default is None else f"{name}={ast.unparse(default)}"


def decorators(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> set[str]:
    return {ast.unparse(d).split("(")[0].split(".")[-1] for d in node.decorator_list}


def names_of(tree: ast.Module, *, is_package: bool) -> Iterator[tuple[str, str, list[str] | None]]:
    """Each name of a module and of its classes: its path within the module, its kind, and its parameters."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and is_public(node.name):
            yield node.name, "function", parameters(node, bound=False)
        elif isinstance(node, ast.ClassDef) and is_public(node.name):
            yield from names_of_class(node)
        elif is_package and isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
            yield from ((alias.asname or alias.name, "name", None) for alias in node.names if is_public(alias.name))
        else:
            yield from ((name, "name", None) for name in assigned(node) if is_public(name))


def assigned(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    return []


def names_of_class(node: ast.ClassDef) -> Iterator[tuple[str, str, list[str] | None]]:
    functions = {f.name: f for f in node.body if isinstance(f, ast.FunctionDef) and "overload" not in decorators(f)}
    fields = {name: part for part in node.body for name in assigned(part) if is_public(name)}
    init = functions.get("__init__")
    if init is not None:
        given = parameters(init, bound=True)
    elif "dataclass" in decorators(node):  # fields of its bases come first; their places are not known here
        given = ["*", *(name for name, part in fields.items() if isinstance(part, ast.AnnAssign))]
    else:
        given = None
    yield node.name, "class", given
    for name in fields:
        yield f"{node.name}.{name}", "attribute", None
    for name, function in functions.items():
        if not is_public(name):
            continue
        if decorators(function) & {"property", "cached_property", "setter"}:
            yield f"{node.name}.{name}", "property", None
        else:
            yield (
                f"{node.name}.{name}",
                "method",
                parameters(function, bound="staticmethod" not in decorators(function)),
            )
    if init is not None:
        for name in sorted(set(attributes_set_in(init)) - functions.keys() - fields.keys()):
            yield f"{node.name}.{name}", "instance attribute", None


def attributes_set_in(init: ast.FunctionDef) -> Iterator[str]:
    stored = (n for n in ast.walk(init) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store))
    for node in stored:
        if isinstance(node.value, ast.Name) and node.value.id == "self" and is_public(node.attr):
            yield node.attr


def main(*versions: str) -> None:
    known: dict[str, set[str]] = {}
    lines: list[tuple[str, str]] = []
    for version, place in (argument.split("=", 1) for argument in versions):
        for module, is_package, text in sources(place):
            if module and module not in known:
                known[module] = set()
                lines.append((module, f"{module} | module | {version}"))
            for name, kind, given in names_of(ast.parse(text), is_package=is_package):
                path = f"{module}.{name}" if module else name
                call = None if given is None else f"({', '.join(given)})"
                bare = {p.split("=")[0] for p in given or () if p != "*"}
                if path not in known:
                    lines.append((path, f"{path} | {kind} | {version}" + (f" | {call}" if call else "")))
                elif added := [p for p in given or () if p != "*" and p.split("=")[0] not in known[path]]:
                    lines.append((path, f"{path} | parameters | {version} | ({', '.join(added)})"))
                known.setdefault(path, set()).update(bare)
    sys.stdout.write("".join(f"{line}\n" for _, line in sorted(lines)))


if __name__ == "__main__":
    main(*sys.argv[1:])
