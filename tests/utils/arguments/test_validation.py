from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pytest
from annotated_types import Gt, Le, Lt, MinLen

from rlfast.utils.arguments.validation import (
    FiniteFloat,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    UnitFloat,
    validate,
    validate_arguments,
)

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("hint", "given", "meant"),
    [
        (int, np.int64(3), 3),
        (PositiveInt, 2.0, 2),
        (PositiveInt, np.float32(2), 2),
        (NonNegativeInt, 0, 0),
        (UnitFloat, 0, 0),
        (UnitFloat, 1.0, 1.0),
        (UnitFloat | None, None, None),
        (FiniteFloat, -1e300, -1e300),
        (float | None, 2.5, 2.5),
        (bool, False, False),
        (str, "cpu", "cpu"),
        (Path | None, "runs/x", Path("runs/x")),
        (tuple[PositiveInt, ...], [64, 32.0], (64, 32)),
        (tuple[int, ...], (), ()),
        (Literal["auto", "native"], "native", "native"),
    ],
)
def test_what_is_meant(hint, given, meant):
    value = validate("x", given, hint)
    assert value == meant
    assert type(value) is type(meant)


@pytest.mark.parametrize(
    ("hint", "given", "error", "message"),
    [
        (int, True, TypeError, "x must be an integer, got True"),
        (int, 2.5, TypeError, "x must be an integer, got 2.5"),
        (int, NAN, TypeError, "x must be an integer, got nan"),
        (int, 2**63, ValueError, "x must have at most 64 bits, got 9223372036854775808"),
        (int | None, "3", TypeError, "x must be an integer or None, got '3'"),
        (float, "3", TypeError, "x must be a number, got '3'"),
        (float, NAN, ValueError, "x must be a finite number, got nan"),
        (FiniteFloat, INF, ValueError, "x must be a finite number, got inf"),
        (PositiveInt, 0, ValueError, "x must be at least 1, got 0"),
        (NonNegativeInt, -1, ValueError, "x must not be negative, got -1"),
        (NonNegativeFloat | None, -0.5, ValueError, "x must not be negative, or None, got -0.5"),
        (PositiveFloat, 0, ValueError, "x must be above 0, got 0"),
        (UnitFloat, 1.25, ValueError, "x must be within 0 and 1, got 1.25"),
        (UnitFloat, -0.25, ValueError, "x must be within 0 and 1, got -0.25"),
        (Annotated[float, Gt(1), Le(2)], 3, ValueError, "x must be at most 2, got 3"),
        (Annotated[float, Lt(2)], 2, ValueError, "x must be below 2, got 2"),
        (bool, 1, TypeError, "x must be True or False, got 1"),
        (str, None, TypeError, "x must be a text, got None"),
        (Path | None, 5, TypeError, "x must be a path or None, got 5"),
        (tuple[PositiveInt, ...], "64", TypeError, "x must be a sequence, got '64'"),
        (tuple[PositiveInt, ...], (64, 0), ValueError, "x must be at least 1, got 0"),
        (Literal["a", "b"], "c", ValueError, "x must be one of 'a', 'b', got 'c'"),
        (Literal["a", "b"], ["a"], ValueError, "x must be one of 'a', 'b'"),
        (Annotated[str, MinLen(1)], "", NotImplementedError, "not a supported bound"),
    ],
)
def test_what_is_not(hint, given, error, message):
    with pytest.raises(error) as caught:
        validate("x", given, hint)
    assert message in str(caught.value)


@validate_arguments
def steps(first: PositiveInt, *, discount: UnitFloat = 0.5, other: float = 0.0):
    """Given back."""
    return first, discount, other


def test_arguments_are_checked_by_place_and_by_name():
    assert steps(3.0) == (3, 0.5, 0.0)
    assert type(steps(3.0)[0]) is int
    assert steps(first=1, discount=1, other=NAN)[1] == 1  # without bounds, an argument is the function's own business
    assert steps.__name__ == "steps"
    with pytest.raises(ValueError, match="first must be at least 1, got 0"):
        steps(0)
    with pytest.raises(ValueError, match="discount must be within 0 and 1, got 2"):
        steps(1, discount=2)


def test_wrong_call_raises_type_error():
    with pytest.raises(TypeError, match=r"steps\(\) missing 1 required positional argument: 'first'"):
        steps()
    with pytest.raises(TypeError, match=r"steps\(\) got an unexpected keyword argument 'third'"):
        steps(1, third=2)


def test_a_misspelt_argument_is_named_with_the_class_that_was_called():
    class Base:
        @validate_arguments
        def __init__(self, *, model: str, discount_factor: UnitFloat = 0.9) -> None:
            """Does nothing."""

    class Derived(Base):
        pass

    with pytest.raises(TypeError, match=r"^Derived\(\) got .* 'discount'; did you mean discount_factor\?$"):
        Derived(model="x", discount=0.5)
    with pytest.raises(TypeError, match=r"^Derived\(\) got an unexpected keyword argument 'far_from_all'$"):
        Derived(model="x", far_from_all=0.5)
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'model'"):
        Derived()


def test_annotations_that_are_texts_are_noticed():
    scope = {}
    exec("from __future__ import annotations\ndef late(x: 'PositiveInt'): ...", scope)
    with pytest.raises(TypeError, match="the annotations of late are strings"):
        validate_arguments(scope["late"])
