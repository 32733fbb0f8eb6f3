"""String representations of objects with their attributes: on one line for logs, on several lines for reading."""

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

reCommaWhitespacePotentiallyBreaks = re.compile(r",\s+")  # noqa: N816 (a public name)


class StringConverter(ABC):
    """The interface of functions that convert objects to strings."""

    @abstractmethod
    def to_string(self, x: object) -> str:
        """Returns the string of an object.

        :param x: the object.
        """


def to_string(
    x: object,
    converter: StringConverter | None = None,
    apply_converter_to_non_complex_objects: bool = True,
    context: object = None,
) -> str:
    """Converts an object to a string; line breaks after commas are removed.

    :param x: the object; the items of lists, tuples and dicts are converted one by one.
    :param converter: converts objects, also those within lists, tuples and dicts; None uses ``str``.
    :param apply_converter_to_non_complex_objects: whether the converter is called for ``x`` itself, if that is not a
        list, tuple or dict. A converter that calls this function passes False, to avoid an endless recursion.
    :param context: part of the message that is logged when ``x`` contains itself.
    :return: the string.
    :raises RecursionError: ``x`` contains itself.

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
        if isinstance(x, MethodType):  # str() of a bound method includes its object
            return f"Method[{x.__name__}]"
        text = converter.to_string(x) if converter and apply_converter_to_non_complex_objects else str(x)
    except RecursionError:
        log.error("Recursion in string conversion detected; context=%s", context)  # noqa: TRY400 (it is raised again)
        raise
    return reCommaWhitespacePotentiallyBreaks.sub(", ", text)


def dict_string(d: Mapping[Any, Any], brackets: str | None = None, converter: StringConverter | None = None) -> str:
    """Converts a dict to ``key=value, key=value``.

    :param d: the dict.
    :param brackets: the opening and the closing bracket; None for none.
    :param converter: see :func:`to_string`.
    :return: the string.
    """
    text = ", ".join(f"{key}={to_string(value, converter=converter, context=key)}" for key, value in d.items())
    return text if brackets is None else f"{brackets[:1]}{text}{brackets[-1:]}"


def list_string(
    l: Iterable[Any], brackets: str | None = "[]", quote: str | None = None, converter: StringConverter | None = None
) -> str:
    """Converts values to ``[value, value]``.

    :param l: the values.
    :param brackets: the opening and the closing bracket; None for none.
    :param quote: a quotation mark to put around each value; None for none.
    :param converter: see :func:`to_string`.
    :return: the string.
    """
    mark = quote or ""
    text = ", ".join(f"{mark}{to_string(value, converter=converter, context='list')}{mark}" for value in l)
    return text if brackets is None else f"{brackets[:1]}{text}{brackets[-1:]}"


def object_repr(obj: object, member_names_or_dict: list[str] | dict[str, Any]) -> str:
    """Converts an object to ``ClassName[name=value, ...]``.

    :param obj: the object.
    :param member_names_or_dict: the names of attributes, or the values by name.
    :return: the string.

    >>> object_repr(3 + 4j, ["real"])
    'complex[real=3.0]'
    """
    members = member_names_or_dict
    if not isinstance(members, dict):
        members = {name: to_string(getattr(obj, name)) for name in members}
    return f"{type(obj).__name__}[{dict_string(members)}]"


def or_regex_group(allowed_names: Sequence[str]) -> str:
    r"""Returns a regular expression with one group, which matches any of the names literally.

    :param allowed_names: the names.

    >>> or_regex_group(["a.b", "c"])
    '(a\\.b|c)'
    """
    return f"({'|'.join(map(re.escape, allowed_names))})"


def function_name(x: Callable[..., Any]) -> str:
    """Returns the name of a function, or of the function within ``functools.partial``; of other objects, the string.

    :param x: a function or another object.
    """
    if isinstance(x, functools.partial):
        return function_name(x.func)
    name: str = getattr(x, "__name__", None) or str(x)
    return name


#: The ids of the objects that are part of the string being made; None outside such a call.
_met: ContextVar[set[int] | None] = ContextVar("met", default=None)


class ToStringMixin:
    """Defines ``str`` as ``ClassName[name=value, ...]`` and ``repr`` as ``ClassName[id=..., name=value, ...]``.

    All attributes are included; leading underscores of their names are removed. An object that appears a second time
    within one string is shown as ``ClassName[<<]``. These methods can be overridden:

    - ``_tostring_includes``: only these attributes; ``_tostring_excludes``: not these;
    - ``_tostring_exclude_private``: whether attributes with a leading underscore are left out, except for those in
      ``_tostring_exclude_exceptions``;
    - ``_tostring_includes_forced``: these attributes in any case;
    - ``_tostring_additional_entries``: further names and values;
    - ``_tostring_object_info``: the text between the brackets; ``_tostring_class_name``: the text before them.

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

        :param file: an open text file; None for the standard output.
        """
        print(self.pprints(), file=file or sys.stdout)

    def pprints(self) -> str:
        """Returns the string over several lines; see :func:`pretty_string_repr`."""
        return pretty_string_repr(self)

    def _tostring_info(self) -> str:
        met = _met.get()
        if met is None:
            try:
                _met.set({id(self)})
                return self._tostring_object_info()
            finally:
                _met.set(None)
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
        """Returns names and values; ``exclude`` overrides ``include``, and ``include_forced`` overrides both."""
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


def pretty_string_repr(s: object, initial_indentation_level: int = 0, indentation_string: str = "    ") -> str:
    """Formats a string of :class:`ToStringMixin` over several lines: one for each entry, indented within brackets.

    Quoted text stays on its line, and so do brackets without ``=`` or without a comma.

    :param s: the string, or an object, which is converted by ``str``.
    :param initial_indentation_level: the indentation level of the first line.
    :param indentation_string: the indentation of one level.
    :return: the formatted string.

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
    """Returns the index at which the bracket or quote at ``start`` is closed; None if it is not closed."""
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
    """Builds a string from components, some of which depend on conditions.

    :param initial_components: the first components.
    :param glue: the separator.

    >>> TagBuilder("ppo").with_conditional(True, "gae").with_alternative(False, "gpu", "cpu").build()
    'ppo_gae_cpu'
    """

    def __init__(self, *initial_components: str, glue: str = "_") -> None:
        self.glue = glue
        self.components = list(initial_components)

    def with_component(self, component: str) -> Self:
        """Adds a component, and returns this object.

        :param component: the component.
        """
        self.components.append(component)
        return self

    def with_conditional(self, cond: bool, component: str) -> Self:
        """Adds a component if the condition holds, and returns this object.

        :param cond: the condition.
        :param component: the component.
        """
        return self.with_component(component) if cond else self

    def with_alternative(self, cond: bool, true_component: str, false_component: str) -> Self:
        """Adds the first component if the condition holds, else the second, and returns this object.

        :param cond: the condition.
        :param true_component: the component if it holds.
        :param false_component: the component if it does not hold.
        """
        return self.with_component(true_component if cond else false_component)

    def build(self) -> str:
        """Returns the string."""
        return self.glue.join(self.components)
