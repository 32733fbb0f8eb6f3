"""The docstrings of public functions, classes and methods describe all of their parameters."""

import dataclasses
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from rlfast.policy import learners

PACKAGES = ("data", "env", "functional", "policy", "trainer", "exploration", "utils")
TABLE = [line.split(" | ") for line in (Path(__file__).parent / "names" / "table.txt").read_text().splitlines()]
NAMES = {line[0] for line in TABLE}
PATHS = [line[0] for line in TABLE if line[1] == "module"]
TEMPLATES = [
    module.name.removeprefix("rlfast.")
    for module in pkgutil.walk_packages(learners.__path__, "rlfast.policy.learners.")
]
REFERENCE = re.compile(r":meth:`~?(?:[\w.]*?(\w+)\.)?(\w+)`")
SAME_METHODS = re.compile(r"methods of :class:`(\w+)`")


def public() -> dict[str, Any]:
    """The functions and classes of packages, of Tianshou's import paths and of the templates, by their full names."""
    found = {}
    for path in (*PACKAGES, *PATHS, *TEMPLATES):
        try:
            module = importlib.import_module(f"rlfast.{path}")
        except ModuleNotFoundError:
            continue  # a path that rlfast does not have; tests/names says why
        for name in getattr(module, "__all__", dir(module)):
            value = getattr(module, name, None)
            if name.startswith("_") or not isinstance(value, (type, FunctionType)):
                continue
            is_own = path in PACKAGES or value.__module__ == module.__name__ or f"{path}.{name}" in NAMES
            if is_own and value.__module__.startswith("rlfast."):
                found[f"{value.__module__}.{value.__qualname__}"] = value
    return found


PUBLIC = public()
CLASSES = {value.__name__: value for value in PUBLIC.values() if isinstance(value, type)}


def parameters(function: Any) -> set[str]:
    """The names of parameters, except ``*args`` and ``**kwargs``, and those that are private."""
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    given = inspect.signature(function).parameters.values()
    return {p.name for p in given if p.kind not in kinds and not p.name.startswith("_")} - {"self", "cls"}


def docs_of(cls: type, name: str) -> Iterator[str]:
    """The docstrings of a method in a class and its bases."""
    for base in cls.__mro__:
        method = vars(base).get(name)
        if method is not None:
            yield getattr(method, "__doc__", None) or ""


def docs_with_references(cls: type, name: str) -> list[str]:
    """The docstrings of a method, those of the methods that they refer to, and of a class with the same methods."""
    docs = list(docs_of(cls, name))
    referred = [match for doc in docs for match in REFERENCE.findall(doc)]
    docs.extend(doc for owner, method in referred for doc in docs_of(CLASSES.get(owner, cls), method))
    for other in SAME_METHODS.findall(cls.__doc__ or ""):
        docs.extend(docs_with_references(CLASSES[other], name))
    return docs


def undescribed(wanted: set[str], docs: list[str]) -> set[str]:
    """Those parameters that none of the docstrings describe."""
    return wanted - {name for doc in docs for name in re.findall(r":param \*{0,2}(\w+):", doc)}


def missing(value: Any) -> dict[str, set[str]]:
    """The parameters of a function, or of a class's constructor and methods, that no docstring describes."""
    if isinstance(value, FunctionType):
        return {"": undescribed(parameters(value), [value.__doc__ or ""])}
    found = {}
    if "__init__" in vars(value) and not dataclasses.is_dataclass(value):
        docs = [base.__doc__ or "" for base in value.__mro__] + list(docs_of(value, "__init__"))
        found["__init__"] = undescribed(parameters(value.__init__), docs)
    for name, member in vars(value).items():
        function = getattr(member, "__func__", member)
        if isinstance(function, FunctionType) and not name.startswith("_"):
            found[name] = undescribed(parameters(function), docs_with_references(value, name))
    return found


def test_public_names_are_found() -> None:
    assert len(PUBLIC) > 250
    assert {"Collector", "DQNPolicy", "ReplayLearner", "MLP"} <= set(CLASSES)


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_parameters_are_described(name: str) -> None:
    assert {method: names for method, names in missing(PUBLIC[name]).items() if names} == {}


def test_an_undescribed_parameter_would_be_seen() -> None:
    class Base:
        def one(self, a: int, b: int) -> None:
            """:param a: an integer."""

    class Derived(Base):
        """:param size: a number."""

        def __init__(self, size: int, depth: int, **options: int) -> None:
            self.size = size + depth + len(options)

        def one(self, a: int, b: int) -> None:
            """Does it."""

        def two(self, a: int) -> None:
            """As :meth:`one`."""

    assert missing(Base) == {"one": {"b"}}
    assert missing(Derived) == {"__init__": {"depth"}, "one": {"b"}, "two": set()}
