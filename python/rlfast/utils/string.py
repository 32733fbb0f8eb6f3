"""Strings that say what an object consists of: one line to log, several to read."""

from __future__ import annotations

import functools
import logging
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from types import MethodType
from typing import Any, ClassVar, Self, TextIO

log = logging.getLogger(__name__)

reCommaWhitespacePotentiallyBreaks = re.compile(r",\s+")  # noqa: N816 (Tianshou's name)


class StringConverter(ABC):
    """A way of making strings of objects."""

    @abstractmethod
    def to_string(self, x: Any) -> str:
        """Gives the string of an object."""


def to_string(
    x: Any,
    converter: StringConverter | None = None,
    apply_converter_to_non_complex_objects: bool = True,
    context: Any = None,
) -> str:
    """The string of an object, on one line as far as it breaks after commas.

    :param x: the object; lists, tuples and dicts are taken apart.
    :param converter: makes the strings of objects, also of those within lists, tuples and dicts.
    :param apply_converter_to_non_complex_objects: whether the converter is asked for an object that is no list, tuple
        or dict. A converter that calls this function passes False, or it would be asked for ever.
    :param context: named in the message that is logged when ``x`` holds itself.

    >>> to_string({"sizes": [1, 2], "name": "net"})
    '{sizes=[1, 2], name=net}'
    """
    try:
        if isinstance(x, list):
            return list_string(x, converter=converter)
        if isinstance(x, tuple):
            return list_string(x, brackets="()", converter=converter)
        if isinstance(x, dict):
            return dict_string(x, brackets="{}", converter=converter)
        if isinstance(x, MethodType):  # the string of a bound method has that of its object in it
            return f"Method[{x.__name__}]"
        text = converter.to_string(x) if converter and apply_converter_to_non_complex_objects else str(x)
    except RecursionError:
        log.error("Recursion in string conversion detected; context=%s", context)  # noqa: TRY400 (it is raised again)
        raise
    return reCommaWhitespacePotentiallyBreaks.sub(", ", text)


def dict_string(d: Mapping[Any, Any], brackets: str | None = None, converter: StringConverter | None = None) -> str:
    """A dict as ``key=value, key=value``.

    :param d: the dict.
    :param brackets: two characters to put around it; None for none.
    :param converter: see :func:`to_string`.
    """
    text = ", ".join(f"{key}={to_string(value, converter=converter, context=key)}" for key, value in d.items())
    return text if brackets is None else f"{brackets[:1]}{text}{brackets[-1:]}"


def list_string(
    l: Iterable[Any],
    brackets: str | None = "[]",
    quote: str | None = None,
    converter: StringConverter | None = None,
) -> str:
    """Values as ``[value, value]``.

    :param l: the values.
    :param brackets: two characters to put around them; None for none.
    :param quote: a character to put around each of them; None for none.
    :param converter: see :func:`to_string`.
    """
    mark = quote or ""
    text = ", ".join(f"{mark}{to_string(value, converter=converter, context='list')}{mark}" for value in l)
    return text if brackets is None else f"{brackets[:1]}{text}{brackets[-1:]}"


def object_repr(obj: Any, member_names_or_dict: list[str] | dict[str, Any]) -> str:
    """An object as ``ClassName[name=value, ...]``, of the attributes named, or of the values given.

    >>> object_repr(3 + 4j, ["real"])
    'complex[real=3.0]'
    """
    members = member_names_or_dict
    if not isinstance(members, dict):
        members = {name: to_string(getattr(obj, name)) for name in members}
    return f"{type(obj).__name__}[{dict_string(members)}]"


def or_regex_group(allowed_names: Sequence[str]) -> str:
    r"""A regular expression that matches any of the names as they are, as a group.

    >>> or_regex_group(["a.b", "c"])
    '(a\\.b|c)'
    """
    return f"({'|'.join(map(re.escape, allowed_names))})"


def function_name(x: Callable[..., Any]) -> str:
    """The name of a function, also within ``functools.partial``; else the object's string."""
    if isinstance(x, functools.partial):
        return function_name(x.func)
    name: str = getattr(x, "__name__", None) or str(x)
    return name


#: The objects that the string being made has met, by their ids; None while none is being made.
_met: ContextVar[set[int] | None] = ContextVar("met", default=None)


class ToStringMixin:
    """Gives objects the strings ``ClassName[name=value, ...]`` and, as ``repr``, ``ClassName[id=..., name=value]``.

    All attributes are named, those with leading underscores without these; an object that comes a second time within
    one string is ``ClassName[<<]``. Methods to override say which attributes are named:

    - ``_tostring_includes`` only these, ``_tostring_excludes`` not these;
    - ``_tostring_exclude_private`` whether those with a leading underscore are left out, but for
      ``_tostring_exclude_exceptions``;
    - ``_tostring_includes_forced`` these in any case;
    - ``_tostring_additional_entries`` further names and values;
    - ``_tostring_object_info`` all that is between the brackets; ``_tostring_class_name`` what is before them.

    >>> class Box(ToStringMixin):
    ...     def __init__(self):
    ...         self.size, self._lid, self.itself = 2, "open", self
    >>> str(Box())
    'Box[size=2, lid=open, itself=Box[<<]]'
    """

    _TOSTRING_INCLUDE_ALL: ClassVar = "__all__"

    def __str__(self) -> str:
        return f"{self._tostring_class_name()}[{self._tostring_info()}]"

    def __repr__(self) -> str:
        info = self._tostring_info()
        return f"{self._tostring_class_name()}[id={id(self)}{', ' if info else ''}{info}]"

    def pprint(self, file: TextIO | None = None) -> None:
        """Prints the string over several lines.

        :param file: where to; None for the standard output.
        """
        print(self.pprints(), file=file or sys.stdout)

    def pprints(self) -> str:
        """The string over several lines; see :func:`pretty_string_repr`."""
        return pretty_string_repr(self)

    def _tostring_info(self) -> str:
        met = _met.get()
        if met is None:
            token = _met.set({id(self)})
            try:
                return self._tostring_object_info()
            finally:
                _met.reset(token)
        if id(self) in met:
            return "<<"
        met.add(id(self))
        return self._tostring_object_info()

    def _tostring_class_name(self) -> str:
        return type(self).__qualname__

    def _tostring_object_info(self) -> str:
        return self._tostring_properties(
            exclude=self._tostring_excludes(),
            include=self._tostring_includes(),
            exclude_exceptions=self._tostring_exclude_exceptions(),
            include_forced=self._tostring_includes_forced(),
            additional_entries=self._tostring_additional_entries(),
        )

    def _tostring_properties(
        self,
        exclude: str | Iterable[str] | None = None,
        include: str | Iterable[str] | None = None,
        exclude_exceptions: Iterable[str] | None = None,
        include_forced: Iterable[str] | None = None,
        additional_entries: dict[str, Any] | None = None,
        converter: StringConverter | None = None,
    ) -> str:
        """The names and values of attributes; exclusions win over inclusions, and forced ones over both."""
        left_out, forced = set(_names(exclude)), _names(include_forced)
        kept = {*forced, *_names(exclude_exceptions)}
        only = _names(include)
        if only == [self._TOSTRING_INCLUDE_ALL]:
            attributes = dict(self.__dict__)
        else:
            wanted = dict.fromkeys([*only, *forced])
            attributes = {name: getattr(self, name) for name in wanted if hasattr(self, name)}
        private = self._tostring_exclude_private()
        entries = {
            name.strip("_"): value
            for name, value in attributes.items()
            if name in kept or not (name in left_out or (private and name.startswith("_")))
        }
        return dict_string(entries | (additional_entries or {}), converter=converter)

    def _tostring_excludes(self) -> list[str]:
        return []

    def _tostring_includes(self) -> list[str]:
        return [self._TOSTRING_INCLUDE_ALL]

    def _tostring_includes_forced(self) -> list[str]:
        return []

    def _tostring_additional_entries(self) -> dict[str, Any]:
        return {}

    def _tostring_exclude_private(self) -> bool:
        return False

    def _tostring_exclude_exceptions(self) -> list[str]:
        return []


def _names(given: str | Iterable[str] | None) -> list[str]:
    return [] if given is None else [given] if isinstance(given, str) else list(given)


_CLOSING = {"[": "]", "(": ")", "'": "'"}


def pretty_string_repr(s: Any, initial_indentation_level: int = 0, indentation_string: str = "    ") -> str:
    """A string such as :class:`ToStringMixin` gives, over several lines: one for each entry, deeper in each bracket.

    What stands in quotes, and brackets that hold no ``name=value`` beside another entry, stay on their line.

    :param s: the string, or an object, whose string is taken.
    :param initial_indentation_level: how deep the first line is.
    :param indentation_string: stands before a line once for each level.

    >>> print(pretty_string_repr("Net[sizes=[1, 2], act=Relu[inplace=True, name='a, b']]"))
    Net[
        sizes=[1, 2],
        act=Relu[
            inplace=True,
            name='a, b']]
    """
    text = s if isinstance(s, str) else str(s)
    level = initial_indentation_level
    parts = [indentation_string * level]
    i = 0
    while i < len(text):
        if text[i] in _CLOSING:
            end = _matching(text, i)
            whole = "" if end is None else text[i : end + 1]
            if whole and (text[i] == "'" or not ("=" in whole and "," in whole)):
                parts.append(whole)
                i += len(whole)
                continue
            level += 1
            parts += [text[i], "\n", indentation_string * level]
        elif text.startswith(", ", i):
            parts += [", \n", indentation_string * level]
            i += 1
        else:
            level -= text[i] in "])"
            parts.append(text[i])
        i += 1
    return "".join(parts)


def _matching(text: str, start: int) -> int | None:
    """Where the bracket or quote at ``start`` is closed; None if it is not."""
    opening, closing = text[start], _CLOSING[text[start]]
    if opening == closing:
        end = text.find(closing, start + 1)
        return None if end < 0 else end
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] == opening) - (text[i] == closing)
        if depth == 0:
            return i
    return None


class TagBuilder:
    """A string made of parts, some of which depend on conditions.

    :param initial_components: the first parts.
    :param glue: stands between the parts.

    >>> TagBuilder("ppo").with_conditional(True, "gae").with_alternative(False, "gpu", "cpu").build()
    'ppo_gae_cpu'
    """

    def __init__(self, *initial_components: str, glue: str = "_") -> None:
        self.glue = glue
        self.components = list(initial_components)

    def with_component(self, component: str) -> Self:
        """Adds a part."""
        self.components.append(component)
        return self

    def with_conditional(self, cond: bool, component: str) -> Self:
        """Adds a part if the condition holds."""
        return self.with_component(component) if cond else self

    def with_alternative(self, cond: bool, true_component: str, false_component: str) -> Self:
        """Adds the first part if the condition holds, else the second."""
        return self.with_component(true_component if cond else false_component)

    def build(self) -> str:
        """The string."""
        return self.glue.join(self.components)
