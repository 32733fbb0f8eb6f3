"""Compares what a library gave with what is right."""

from __future__ import annotations

import math
from typing import Any

from bench.museum.case import ABSENT, REFUSES, RIGHT, WRONG, Case, Either


def agrees(observed: Any, right: Any, tolerance: float) -> bool:
    """Returns whether plain data are equal, numbers within ``tolerance``; NaN equals NaN, and True is no number."""
    if isinstance(right, Either):
        return any(agrees(observed, value, tolerance) for value in right.values)
    if isinstance(right, dict):
        same = isinstance(observed, dict) and set(observed) == {str(key) for key in right}
        return same and all(agrees(observed[str(key)], value, tolerance) for key, value in right.items())
    if isinstance(right, (list, tuple)):
        same = isinstance(observed, (list, tuple)) and len(observed) == len(right)
        return same and all(agrees(o, r, tolerance) for o, r in zip(observed, right, strict=True))
    if isinstance(right, bool) or right is None or isinstance(right, str):
        return type(observed) is type(right) and observed == right
    if isinstance(observed, bool) or not isinstance(observed, (int, float)):
        return False
    if math.isnan(right) or math.isnan(observed) or math.isinf(right) or math.isinf(observed):
        return observed == right or (math.isnan(right) and math.isnan(observed))
    return abs(observed - right) <= tolerance * max(1.0, abs(right))


def verdict(case: Case, answer: dict[str, Any]) -> tuple[str, Any]:
    """Returns the outcome of a case and what is to be shown for it.

    An error counts as a refusal only if the library raised it deliberately; see :mod:`bench.museum.worker`.
    """
    if "absent" in answer:
        return ABSENT, answer["absent"]
    if "died" in answer:
        return WRONG, answer["died"]
    if "error" in answer:
        if not answer["deliberate"]:
            return WRONG, answer["error"]
        return (RIGHT if case.refusing_is_right else REFUSES), answer["error"]
    observed = answer["value"]
    return (RIGHT if agrees(observed, case.right, case.tolerance) else WRONG), observed
