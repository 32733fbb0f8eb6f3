import functools
import io
import logging
import re

import pytest

from rlfast.utils.string import (
    StringConverter,
    TagBuilder,
    ToStringMixin,
    dict_string,
    function_name,
    list_string,
    object_repr,
    or_regex_group,
    pretty_string_repr,
    to_string,
)


class Part(ToStringMixin):
    def __init__(self, size=1):
        self.size = size
        self._hidden = "h"


def test_the_string_names_class_and_attributes():
    part = Part()
    assert str(part) == "Part[size=1, hidden=h]"
    assert repr(part) == f"Part[id={id(part)}, size=1, hidden=h]"


def test_objects_within_each_other_end():
    part = Part()
    part.me, part.twice = part, [other := Part(2), (other,)]
    text = "Part[size=1, hidden=h, me=Part[<<], twice=[Part[size=2, hidden=h], (Part[<<])]]"
    assert [str(part), str(part)] == [text, text]


def test_a_bound_method_does_not_bring_its_object():
    part = Part()
    part.call = part.pprints
    assert str(part) == "Part[size=1, hidden=h, call=Method[pprints]]"


@pytest.mark.parametrize(
    ("overridden", "text"),
    [
        ({"_tostring_excludes": ["size"]}, "[hidden=h]"),
        ({"_tostring_includes": ["size"]}, "[size=1]"),
        ({"_tostring_includes": ["size"], "_tostring_includes_forced": ["_hidden"]}, "[size=1, hidden=h]"),
        ({"_tostring_exclude_private": True}, "[size=1]"),
        ({"_tostring_exclude_private": True, "_tostring_exclude_exceptions": ["_hidden"]}, "[size=1, hidden=h]"),
        ({"_tostring_excludes": ["size"], "_tostring_includes_forced": ["size"]}, "[size=1, hidden=h]"),
        ({"_tostring_additional_entries": {"more": [1]}}, "[size=1, hidden=h, more=[1]]"),
        ({"_tostring_object_info": "so it is"}, "[so it is]"),
    ],
)
def test_what_is_named_can_be_chosen(overridden, text):
    kind = type("Kind", (Part,), {name: lambda self, value=value: value for name, value in overridden.items()})
    assert str(kind()) == "Kind" + text


class Chosen(Part):
    def _tostring_includes(self):
        return [*super()._tostring_includes(), "size"]  # the mark for "all" counts only while it is alone


def test_names_take_the_place_of_all():
    assert str(Chosen()) == "Chosen[size=1]"


def test_pretty():
    text = "Net[sizes=[1, 2], act=Relu[inplace=True, name='a, b']]"
    lines = ["Net[", "sizes=[1, 2],", "act=Relu[", "inplace=True,", "name='a, b']]"]
    assert [line.strip() for line in pretty_string_repr(text).splitlines()] == lines
    assert pretty_string_repr("a[b=1, c", 1, "..") == "..a[\n....b=1, \n....c"
    assert pretty_string_repr("it's") == "it'\n    s"
    out = io.StringIO()
    part = Part()
    part.pprint(out)
    assert out.getvalue() == part.pprints() + "\n"


def test_values():
    assert to_string([1, {"a": (2,)}, "x,\n   y"]) == "[1, {a=(2)}, x, y]"
    assert list_string("ab", brackets=None, quote="'") == "'a', 'b'"
    assert dict_string({1: 2}, brackets="<>") == "<1=2>"
    assert object_repr(Part(), ["size"]) == "Part[size=1]"
    assert object_repr(Part(), {"x": [1]}) == "Part[x=[1]]"
    assert re.fullmatch(or_regex_group(["a.b", "c"]), "a.b")
    assert not re.fullmatch(or_regex_group(["a.b", "c"]), "axb")
    assert function_name(functools.partial(functools.partial(max), 1)) == "max"
    assert function_name(Part()) == "Part[size=1, hidden=h]"


def test_a_converter_makes_the_strings():
    class Short(StringConverter):
        def to_string(self, x):
            return to_string(x, converter=self, apply_converter_to_non_complex_objects=False)[:3]

    assert to_string(["abcdef", {"k": "ghijkl"}], converter=Short()) == "[abc, {k=ghi}]"


def test_recursion_is_logged(caplog):
    class Endless(StringConverter):
        def to_string(self, x):
            return to_string(x, converter=self)

    with caplog.at_level(logging.ERROR), pytest.raises(RecursionError):
        to_string("x", converter=Endless(), context="here")
    assert "context=here" in caplog.text


def test_tags():
    tag = TagBuilder("a", "b", glue="-").with_component("c").with_conditional(False, "d").with_conditional(True, "e")
    assert tag.with_alternative(True, "f", "g").build() == "a-b-c-e-f"
