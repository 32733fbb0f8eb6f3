import math
from fractions import Fraction

import numpy as np
import pytest

from rlfast.utils.arguments.checks import (
    ArgumentError,
    check_function,
    check_instance,
    check_integer,
    check_methods,
    check_number,
    count_of,
)

NAN = float("nan")


def test_what_is_meant_is_taken():
    for value in (0, -3, np.int64(3), np.uint8(3)):
        check_integer("n", value)
    for value in (0, 2.5, np.float32(2.5), np.int64(3)):
        check_number("n", value)
    check_function("f", len)
    check_instance("d", {}, dict)
    check_integer("n", None, optional=True)
    check_number("n", None, optional=True)
    check_function("f", None, optional=True)
    check_instance("d", None, dict, optional=True)


@pytest.mark.parametrize("value", [None, True, np.True_, 2.0, NAN, "3", [], np.zeros(2)])
def test_what_is_no_integer(value):
    with pytest.raises(TypeError, match="n must be an integer, got"):
        check_integer("n", value)


@pytest.mark.parametrize("value", [None, True, "3", [], 1j, np.zeros(2)])
def test_what_is_no_number(value):
    with pytest.raises(TypeError, match="x must be a number, got"):
        check_number("x", value)


@pytest.mark.parametrize("value", [NAN, float("inf"), np.float32(-np.inf)])
def test_numbers_are_finite(value):
    with pytest.raises(ValueError, match="x must be a finite number, got"):
        check_number("x", value, optional=True)


def test_what_else_is_refused():
    with pytest.raises(TypeError, match="n must be an integer or None, got 'x'"):
        check_integer("n", "x", optional=True)
    with pytest.raises(TypeError, match="f must be a function or None, got 5"):
        check_function("f", 5, optional=True)
    with pytest.raises(TypeError, match=r"d must be a dict, got <class 'dict'>"):
        check_instance("d", dict, dict)


@pytest.mark.parametrize("value", [3, 3.0, np.float32(3), np.int64(3), np.array(3), Fraction(3)])
def test_counts_are_whole_numbers_of_any_type(value):
    assert count_of("n", value) == 3
    assert type(count_of("n", value)) is int
    assert count_of("n", True) == 1


def test_counts_are_rounded_where_they_may_be():
    with pytest.warns(UserWarning, match="n=2.5 is not whole: 3 is taken"):
        assert count_of("n", 2.5, rounded=math.ceil) == 3
    with pytest.warns(UserWarning, match="n=-0.5 is not whole: -1 is taken"):
        assert count_of("n", -0.5, rounded=math.floor) == -1


@pytest.mark.parametrize("value", [2.5, NAN, float("inf"), None, "3", [3], 3j, np.arange(2)])
def test_what_is_no_count(value):
    with pytest.raises(TypeError, match="n must be an integer, got"):
        count_of("n", value)
    if not isinstance(value, float) or value != 2.5:
        with pytest.raises(TypeError, match="n must be an integer, got"):
            count_of("n", value, rounded=math.ceil)


def test_methods_are_asked_for_and_not_classes():
    check_methods("d", {}, "mapping", ["keys", "values"])
    check_methods("d", None, "mapping", ["keys"], optional=True)
    with pytest.raises(TypeError, match="d must be a mapping or None, got 5, which has no keys, values"):
        check_methods("d", 5, "mapping", ["keys", "values"], optional=True)
    with pytest.raises(TypeError, match="d must be a mapping, got <class 'dict'>, which is a class: make an instance"):
        check_methods("d", dict, "mapping", ["keys"])


def test_contradictions_raise_tianshou_errors():
    for kind in (TypeError, ValueError, AssertionError):
        with pytest.raises(kind):
            raise ArgumentError
