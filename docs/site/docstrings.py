"""reST in docstrings as Markdown: roles, literals, formulas and examples."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from typing import Any

import griffe

_ROLE = re.compile(r":(?:class|meth|func|mod|attr|data|exc|ref):`~?(?:[^`<]*<)?([^`>]+)>?`")
_MATH = re.compile(r":math:`([^`]+)`", re.DOTALL)


class Rest(griffe.Extension):
    """Rewrites each docstring before it is parsed."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for every module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        """Parameters of a class that inherits its constructor become text, since its signature is not on the page.

        Only bases that a user can import by a public name stay.
        """
        cls.bases = [base for base in cls.bases if is_public(base if isinstance(base, str) else base.canonical_path)]
        if cls.docstring is not None and "__init__" not in cls.members and not cls.decorators:
            cls.docstring.value = re.sub(r"^:param (\w+):", r"- `\1`:", cls.docstring.value, flags=re.MULTILINE)


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


def markdown(text: str) -> str:
    """The docstring with Markdown's marks."""
    text = _ROLE.sub(lambda match: f"`{match[1]}`", text)
    text = _MATH.sub(lambda match: f"`{' '.join(match[1].split())}`", text)
    text = text.replace("``", "`")
    text = re.sub(r"^:ivar (\w+):", r"- `\1`:", text, flags=re.MULTILINE)
    return fenced(text)


def fenced(text: str) -> str:
    """Examples and literal blocks between fences."""
    lines: list[str] = []
    for block in re.split(r"\n\n", text):
        if block.lstrip().startswith(">>> "):
            lines.append(f"```pycon\n{block}\n```")
        else:
            lines.append(re.sub(r"::$", ":", block))
    return "\n\n".join(lines)
