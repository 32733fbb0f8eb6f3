"""The shape of the package and its dependencies; import-linter checks the layers of Python (`make lint`)."""

import ast
import re
import tomllib
from collections import Counter
from graphlib import CycleError, TopologicalSorter
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


@pytest.mark.parametrize("crate", ["rlfast-core", "rlfast-data", "rlfast-envs", "rlfast-host"])
def test_python_is_unknown_below_its_crate(crate: str) -> None:
    assert reachable(crate) & PYTHON_CRATES == set()


def test_the_check_would_see_python() -> None:
    assert {"pyo3", "numpy", "rlfast-core"} <= reachable("rlfast-python")


def test_the_core_stands_on_no_other_crate_of_ours() -> None:
    assert {c for c in reachable("rlfast-core") if c.startswith("rlfast")} == set()


def test_the_host_stands_on_the_core_alone() -> None:
    assert {c for c in reachable("rlfast-host") if c.startswith("rlfast")} == {"rlfast-core"}


def imported(folder: Path, package: str) -> dict[str, set[str]]:
    """The modules of a package that each of its modules imports anywhere: for type checkers and in functions, too."""
    files = [path for path in (folder / package).rglob("*.py") if "_bench" not in path.parts]
    names = {path: ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__") for path in files}
    modules = set(names.values())
    imports: dict[str, set[str]] = {}
    for path, module in names.items():
        here = imports[module] = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                here.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                above = module.split(".")[: -node.level + (path.name == "__init__.py") or None] if node.level else []
                source = ".".join([*above, *([node.module] if node.module else [])])
                both = {alias.name: f"{source}.{alias.name}" for alias in node.names}
                here.update(both[name] if both[name] in modules else source for name in both)
        here &= modules - {module, package}  # the root names its packages for type checkers, and is above all
    del imports[package]
    return imports


def circle(imports: dict[str, set[str]]) -> list[str]:
    """Modules that import each other in a circle; none if there is no circle."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_modules_import_each_other_in_a_circle() -> None:
    imports = imported(ROOT / "python", "rlfast")
    assert len(imports) > 100
    assert "rlfast.data.formats.snapshot" in imports["rlfast.data.buffer.files"]  # in a function
    assert circle(imports) == []


@pytest.mark.parametrize(
    "line",
    [
        "import package.inner.a",
        "from package.inner import a",
        "from package.inner.a import name",
        "from . import a",
        "from .a import name",
        "from ..inner.a import name",
        "if TYPE_CHECKING:\n    from package.inner.a import name",
        "def function():\n    from package.inner.a import name",
        "from package.inner import face",  # the package hands on what is in the other module
    ],
)
def test_a_circle_would_be_seen(tmp_path: Path, line: str) -> None:
    inner = tmp_path / "package" / "inner"
    inner.mkdir(parents=True)
    (tmp_path / "package" / "__init__.py").write_text("")
    (inner / "__init__.py").write_text("from package.inner.a import name as face" if "face" in line else "")
    (inner / "a.py").write_text("from package.inner.b import other")
    (inner / "b.py").write_text("")
    assert circle(imported(tmp_path, "package")) == []
    (inner / "b.py").write_text(line)
    assert set(circle(imported(tmp_path, "package"))) >= {"package.inner.a", "package.inner.b"}


RUST_PATH = re.compile(r"\b(crate|(?:super::)*super)((?:::\w+)*)(?:::\{([^}]*)\})?")


def used(source: Path) -> dict[str, set[str]]:
    """The modules beside them that the modules of a Rust crate use, each with what is inside it; tests aside."""
    files = {path.relative_to(source).with_suffix("").parts: path for path in source.rglob("*.rs")}
    modules = {parts[:-1] if parts[-1] in {"lib", "mod"} else parts: path for parts, path in files.items()}
    uses: dict[str, set[str]] = {}
    for module, path in modules.items():
        if module[-1:] == ("tests",):
            continue
        text = re.sub("//.*", "", path.read_text()).split("#[cfg(test)]\nmod tests {")[0]
        for root, inner, names in RUST_PATH.findall(text):
            above = () if root == "crate" else module[: -root.count("super")]
            for name in names.split(",") if names else [""]:
                there = (*above, *inner.split("::")[1:], *name.strip().split("::"))
                while there not in modules:
                    there = there[:-1]
                shared = next((k for k, pair in enumerate(zip(module, there, strict=False)) if len({*pair}) == 2), None)
                if shared is not None:
                    uses.setdefault("::".join(module[: shared + 1]), set()).add("::".join(there[: shared + 1]))
    return uses


@pytest.mark.parametrize("crate", ["core", "data", "envs", "python"])
def test_no_modules_of_a_crate_use_each_other_in_a_circle(crate: str) -> None:
    assert circle(used(ROOT / "rust" / crate / "src")) == []


@pytest.mark.parametrize("line", ["use crate::outer::a::Name;", "use super::a;", "fn f() { super::a::g(); }"])
def test_a_circle_of_a_crate_would_be_seen(tmp_path: Path, line: str) -> None:
    outer = tmp_path / "outer"
    outer.mkdir()
    (tmp_path / "lib.rs").write_text("mod outer;")
    (tmp_path / "outer.rs").write_text("mod a;\nmod b;\nuse a::Name;")
    (outer / "a.rs").write_text("use super::b::{Other, Third};\nuse super::Outer;")
    (outer / "b.rs").write_text(f"// {line}\n#[cfg(test)]\nmod tests {{\n    {line}\n}}")
    assert circle(used(tmp_path)) == []
    (outer / "b.rs").write_text(line)
    assert set(circle(used(tmp_path))) == {"outer::a", "outer::b"}


def sources() -> list[Path]:
    """The modules of the package."""
    return [path for path in (ROOT / "python" / "rlfast").rglob("*.py") if "_bench" not in path.parts]


ONE_FILE_FOR_EACH_ALGORITHM = ("policy/modelfree", "policy/imitation", "experiment/algorithms")


def test_a_folder_has_at_most_twelve_modules() -> None:
    folders = Counter(path.parent for path in sources() if path.name != "__init__.py")
    names = {folder.relative_to(ROOT / "python" / "rlfast").as_posix(): count for folder, count in folders.items()}
    assert names["data/buffer"] > 5
    assert {name: n for name, n in names.items() if n > 12 and name not in ONE_FILE_FOR_EACH_ALGORITHM} == {}


def lengths(code: str) -> dict[str, int]:
    """The number of lines of each function's statements: neither its signature nor its docstring."""
    functions = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.FunctionDef)]
    found = {}
    for function in functions:
        first = function.body[min(ast.get_docstring(function) is not None, len(function.body) - 1)]
        length = (function.end_lineno or 0) - first.lineno + 1
        found[function.name] = max(length, found.get(function.name, 0))
    return found


def test_no_function_has_more_than_sixty_lines() -> None:
    all_lengths = {f"{path}:{name}": n for path in sources() for name, n in lengths(path.read_text()).items()}
    assert len(all_lengths) > 1000
    assert {name: n for name, n in all_lengths.items() if n > 60} == {}


def test_a_long_function_would_be_seen() -> None:
    assert lengths('def f(\n    a,\n):\n    """Text.\n\n    More.\n    """\n    a = 1\n\n    return a') == {"f": 3}
    assert lengths("def f():\n" + 61 * "    a = 1\n") == {"f": 61}
