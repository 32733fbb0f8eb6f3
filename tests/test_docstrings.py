"""The docstrings of public functions, classes and methods describe their parameters, results and errors."""

import dataclasses
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
import torch

PACKAGES = ("data", "env", "functional", "policy", "trainer", "exploration", "utils")
TABLE = [line.split(" | ") for line in (Path(__file__).parent / "names" / "table.txt").read_text().splitlines()]
NAMES = {line[0] for line in TABLE}
PATHS = [line[0] for line in TABLE if line[1] == "module"]
TEMPLATES = [f"policy.{name}" for name in ("actor_critic", "critics", "q_learner", "replay", "rollout", "soft")]
REFERENCE = re.compile(r":meth:`~?(?:[\w.]*?(\w+)\.)?(\w+)`")
SAME_METHODS = re.compile(r"methods of :class:`(\w+)`")
RESULT = re.compile(r":return:|\b[Rr]eturns?\b")
RAISE = re.compile(r"^\s+raise (?!NotImplementedError\b)[A-Z]", re.MULTILINE)


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


def functions(value: Any) -> Iterator[tuple[str, FunctionType, list[str]]]:
    """The function, or the public methods of a class that are its own, each with its docstrings."""
    if isinstance(value, FunctionType):
        yield "", value, [value.__doc__ or ""]
        return
    for name, member in vars(value).items():
        function = getattr(member, "__func__", member)
        if isinstance(function, FunctionType) and not name.startswith("_"):
            yield name, function, docs_with_references(value, name)


def without_result(value: Any) -> set[str]:
    """The names of functions that return something which no docstring describes."""
    found = set()
    for name, function, docs in functions(value):
        returns = function.__annotations__.get("return")
        if returns not in (None, "None", "NoReturn", "Never") and not any(RESULT.search(doc) for doc in docs):
            found.add(name)
    return found


def without_errors(value: Any) -> set[str]:
    """The names of functions that raise errors, none of which a docstring describes."""
    found = set()
    for name, function, docs in functions(value):
        source = textwrap.dedent(inspect.getsource(function))
        if RAISE.search(source) and not any(":raises" in doc for doc in docs):
            found.add(name)
    return found


def is_protocol(value: Any) -> bool:
    return getattr(value, "_is_protocol", False)


def is_distribution(value: Any) -> bool:
    """Whether torch documents the methods."""
    return isinstance(value, type) and issubclass(value, torch.distributions.Distribution)


def test_public_names_are_found() -> None:
    assert len(PUBLIC) > 250
    assert {"Collector", "DQNPolicy", "ReplayLearner", "MLP"} <= set(CLASSES)


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_parameters_are_described(name: str) -> None:
    assert {method: names for method, names in missing(PUBLIC[name]).items() if names} == {}


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_results_are_described(name: str) -> None:
    if not (is_protocol(PUBLIC[name]) or is_distribution(PUBLIC[name])):
        assert without_result(PUBLIC[name]) == set()


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_errors_are_described(name: str) -> None:
    assert without_errors(PUBLIC[name]) == set()


def test_an_undescribed_result_or_error_would_be_seen() -> None:
    class Class:
        def one(self) -> int:
            """Counts."""
            return 1

        def two(self) -> int:
            """Returns the count."""
            return 2

        def three(self) -> None:
            """Fails."""
            raise ValueError

    assert without_result(Class) == {"one"}
    assert without_errors(Class) == {"three"}


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
