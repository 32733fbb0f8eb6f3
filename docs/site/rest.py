"""The reST of docstrings as Markdown: roles, literals, equations and examples."""

from __future__ import annotations

import re

_ROLE = re.compile(r":(?:class|meth|func|mod|attr|data|exc|ref):`~?(?:[^`<]*<)?([^`>]+)>?`")
_MATH = re.compile(r":math:`([^`]+)`", re.DOTALL)
_EQUATION = re.compile(r"^( *)\.\. math::(.*(?:\n\1 +\S.*)*)", re.MULTILINE)


def markdown(text: str) -> str:
    """The docstring with Markdown's marks."""
    text = _ROLE.sub(lambda match: f"`{match[1]}`", text)
    text = _EQUATION.sub(lambda match: equation(match[2]), text)
    text = _MATH.sub(lambda match: rf"\({' '.join(match[1].split())}\)", text)
    text = text.replace("``", "`")
    text = re.sub(r"^:ivar (\w+):", r"- `\1`:", text, flags=re.MULTILINE)
    return fenced(text)


def equation(tex: str) -> str:
    """An equation in a block of its own, with its lines aligned as Sphinx aligns them."""
    tex = " ".join(tex.split())
    if r"\\" in tex:
        tex = rf"\begin{{aligned}}{tex}\end{{aligned}}"
    return f"\n$$\n{tex}\n$$\n"


def fenced(text: str) -> str:
    """Examples between fences, before the parameters: what follows a parameter would belong to it."""
    blocks = re.split(r"\n\n", text)
    fields = next((place for place, block in enumerate(blocks) if block.startswith(":")), len(blocks))
    examples = [block for block in blocks[fields:] if block.startswith(">>> ")]
    others = [block for block in blocks[fields:] if block not in examples]
    lines: list[str] = []
    for block in [*blocks[:fields], *examples, *others]:
        if block.lstrip().startswith(">>> "):
            lines.append(f"```pycon\n{block}\n```")
        else:
            lines.append(re.sub(r"::$", ":", block))
    return "\n\n".join(lines)
