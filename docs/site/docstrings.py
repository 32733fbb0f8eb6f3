"""reST in docstrings as Markdown: roles, literals, formulas and examples."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any

import griffe
from rest import markdown


class Rest(griffe.Extension):
    """Rewrites each docstring before it is parsed."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for every module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Called for a whole package, after griffe has made the constructors of dataclasses from all their bases."""
        for cls in classes(pkg):
            finish(cls)


def classes(parent: griffe.Module | griffe.Class) -> Iterator[griffe.Class]:
    """The classes that a module or a class defines, also in its parts."""
    for member in parent.members.values():
        if isinstance(member, griffe.Class):
            yield member
        if isinstance(member, griffe.Module | griffe.Class):
            yield from classes(member)


def finish(cls: griffe.Class) -> None:
    """Parameters of a class that inherits its constructor become text, since its signature is not on the page.

    Only bases that a user can import by a public name stay.
    """
    cls.bases = [base for base in cls.bases if is_public(base if isinstance(base, str) else base.canonical_path)]
    init = cls.members.get("__init__")
    if cls.docstring is None:
        return
    if isinstance(init, griffe.Function):
        add_options(init.parameters, cls.docstring.value)
    elif not cls.decorators:
        cls.docstring.value = re.sub(r"^:param (\w+):", r"- `\1`:", cls.docstring.value, flags=re.MULTILINE)


def add_options(parameters: griffe.Parameters, docstring: str) -> None:
    """Adds the described parameters that a constructor passes on as ``**options`` to its signature.

    :param parameters: those of the constructor.
    :param docstring: that of its class.
    """
    options = next((each for each in parameters if each.kind is griffe.ParameterKind.var_keyword), None)
    described = re.findall(r"^:param (\w+):", docstring, flags=re.MULTILINE)
    missing = [name for name in described if name not in parameters]
    if options is None or not missing:
        return
    del parameters[options.name]
    for name in missing:
        parameters.add(griffe.Parameter(name, kind=griffe.ParameterKind.keyword_only))
    parameters.add(options)


def is_public(path: str) -> bool:
    """Whether the reference shows a base class.

    :param path: where the class is defined: ``rlfast.data.buffer.base.ReplayBuffer``.
    """
    package, name = ".".join(path.split(".")[:2]), path.rpartition(".")[2]
    if not package.startswith("rlfast."):
        return name not in ("ABC", "Generic", "Protocol")
    return name in exported(package) if package != "rlfast.interop" else not name.startswith("_") and "._" not in path


@cache
def exported(package: str) -> frozenset[str]:
    """The public names of a package."""
    return frozenset(getattr(import_module(package), "__all__", ()))
