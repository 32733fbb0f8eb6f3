"""The settings of an algorithm as a table, made from the constructor of its policy."""

from __future__ import annotations

import inspect
import re
import sys
import types
from collections.abc import Callable
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import rlfast.data
import rlfast.policy

MARK = re.compile(r"^<!-- settings: (\w+) -->$", re.MULTILINE)
"""What a page has in the place of a table: ``<!-- settings: PPOPolicy -->``."""

_PARAM = re.compile(r"^:param (\w+):(.*(?:\n(?!:).*\S.*)*)", re.MULTILINE)
_DEFAULT = re.compile(r"\s*(?:Default: [^.]*(?:\.\d+)?(?:, [^.]*)?\.|\(default\))")
_ROLE = re.compile(r":(?:class|meth|func|mod|attr):`~?(?:[^`]*\.)?([^`.]+)`")
_CLASS = re.compile(r":class:`~?(?:[^`]*\.)?(\w+)`")
_REFERENCE = re.compile(r"^\s*(?:as in|see) :class:`~?(?:[^`]*\.)?(\w+)`[^.]*\.$")


def with_tables(markdown: str) -> str:
    """The page with tables in the places that are marked for them."""
    return MARK.sub(lambda match: table(getattr(rlfast.policy, match[1])), markdown)


def table(policy: type) -> str:
    """The parameters of a constructor as a Markdown table, those that must be given first.

    :param policy: a class whose docstring describes the parameters.
    """
    hints = hints_of(policy)
    lines = ["| setting | default | range | meaning |", "|---|---|---|---|"]
    for one in sorted(parameters(policy), key=lambda one: one.default is not inspect.Parameter.empty):
        cells = (f"`{one.name}`", default(one), allowed(hints.get(one.name, Any)), meaning(policy, one.name))
        lines.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
    return "\n".join(lines)


def hints_of(policy: type) -> dict[str, Any]:
    """The type hints of a constructor, also those that name what the module imports for type checkers alone."""
    data = {name: getattr(rlfast.data, name) for name in rlfast.data.__all__}
    found: dict[str, Any] = {}
    for base in policy.__mro__:  # the options of a constructor are those of its bases
        if "__init__" in vars(base) and base.__module__.startswith("rlfast."):
            init = inspect.unwrap(vars(base)["__init__"])
            names = data | vars(rlfast.policy) | vars(sys.modules[init.__module__])
            found = get_type_hints(init, globalns=names, include_extras=True) | found
    return found


def parameters(policy: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters that have names."""
    hidden = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [one for one in inspect.signature(policy).parameters.values() if one.kind not in hidden]


def default(parameter: inspect.Parameter) -> str:
    """The default of a parameter."""
    return "required" if parameter.default is inspect.Parameter.empty else f"`{parameter.default!r}`"


def meaning(policy: type, name: str) -> str:
    """The meaning of a parameter in one line of Markdown.

    :raises KeyError: if neither the docstring, nor those of bases and of classes that it refers to, describe it.
    """
    text = _DEFAULT.sub("", " ".join(description(policy, name).split()))
    text = re.sub(r":math:`([^`]+)`", r"\\(\1\\)", _ROLE.sub(r"`\1`", text)).replace("``", "`")
    text = re.sub(r",? ?in \[0, 1\]", "", text)  # the range has a column of its own
    return text[:1].upper() + text[1:]


def description(policy: type, name: str) -> str:
    """What docstrings say of a parameter; a reference to the same parameter of another policy is followed."""
    text = inspect.getdoc(policy) or ""
    found = dict(_PARAM.findall(text)).get(name)
    others = [one for one in _CLASS.findall(text) if one != policy.__name__]
    if found is not None:
        reference = _REFERENCE.match(found)
        if reference is None or reference[1] == policy.__name__:
            return found
        others.insert(0, reference[1])
    places = [getattr(rlfast.policy, one) for one in others if hasattr(rlfast.policy, one)]
    for place in (*places, *policy.__mro__[1:]):
        if name in inspect.signature(place).parameters and place.__module__.startswith("rlfast."):
            return description(place, name)
    raise KeyError(f"no docstring describes {name} of {policy.__name__}")


def allowed(hint: Any) -> str:
    """The values that a type hint allows, in words; nothing where it names a type that has no range."""
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        (first, *more) = [allowed(one) for one in inside if one is not types.NoneType]
        return f"{first}, or None" if first and not more else ""
    if origin is Literal:
        return ", ".join(f"`{one!r}`" for one in inside)
    if origin is Annotated:
        return " ".join(filter(None, (allowed(inside[0]), bounds(inside[1:]))))
    return {bool: "`True`, `False`", int: "integer", float: "number"}.get(hint, "")


def bounds(limits: tuple[Any, ...]) -> str:
    """The limits of a number in words."""
    found = {name: getattr(limit, name, None) for limit in limits for name in ("ge", "gt", "le", "lt")}
    found = {name: value for name, value in found.items() if value is not None}
    if set(found) == {"ge", "le"}:
        return f"in [{found['ge']}, {found['le']}]"
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    return ", ".join(f"{signs[name]} {value}" for name, value in found.items())
