"""reST in docstrings as Markdown: roles, literals, formulas and examples."""

from __future__ import annotations

import re
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
        """A class that inherits its constructor has no signature here: what it says of parameters is text."""
        if cls.docstring is not None and "__init__" not in cls.members and not cls.decorators:
            cls.docstring.value = re.sub(r"^:param (\w+):", r"- `\1`:", cls.docstring.value, flags=re.MULTILINE)


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
