"""The rows that operations store: observation ``n`` is followed by ``n + 1``, and the action is ``n``."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bench.museum.adapters import DoesNotApply


class Row(NamedTuple):
    """One transition of one environment."""

    obs: Any
    act: Any
    rew: float
    terminated: bool
    truncated: bool
    obs_next: Any


def needs(library: Any, name: str) -> Any:
    """Returns a function of an adapter.

    :raises DoesNotApply: if it has none.
    """
    if not hasattr(library, name):
        raise DoesNotApply(f"no {name.replace('_', ' ')}")
    return getattr(library, name)


def number(value: float) -> np.ndarray:
    """An observation that is one number."""
    return np.array([value], np.float32)


def episodes(ends: str, rew: list[float] | None = None, first: int = 0, final: float | None = None) -> list[Row]:
    """Returns one row for each character of ``ends``: "T" terminated, "t" truncated, "." neither.

    With ``final``, a truncated row ``n`` leads to the observation ``n + 1 + final``, which no other row has.
    """
    rows = []
    for step, end in enumerate(ends):
        after = first + step + 1 + (final if final is not None and end == "t" else 0)
        reward = 0.0 if rew is None else float(rew[step])
        rows.append(Row(number(first + step), first + step, reward, end == "T", end == "t", number(after)))
    return rows


def scalar(value: Any) -> float:
    return float(np.asarray(value, np.float64).reshape(-1)[0])
