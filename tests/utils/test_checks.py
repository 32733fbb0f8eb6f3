import numpy as np
import pytest

from rlfast.utils.checks import check_function, check_instance, check_integer, check_number

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
