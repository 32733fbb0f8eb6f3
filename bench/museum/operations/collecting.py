"""Collecting and evaluating.

Adapters: ``mean_return(makers, episodes)`` evaluates any policy for so many episodes; ``collected(makers, counts)``
collects that many steps, one call for each count, and returns the rows of each environment.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from bench.museum.operations.environments import shown
from bench.museum.operations.rows import needs
from bench.museum.operations.scripted import Counter

__all__ = ["collected_rows", "evaluation", "infos_while_collecting"]


def evaluation(library: Any, *, lengths: list[int], rewards: list[float], episodes: int) -> Any:
    """The mean return of ``episodes`` episodes; each environment has a length and a reward per step."""
    makers = [
        partial(Counter, length=length, end="T", reward=reward) for length, reward in zip(lengths, rewards, strict=True)
    ]
    return {"mean": round(float(needs(library, "mean_return")(makers, episodes)), 4)}


def collected_rows(library: Any, *, length: int, counts: list[int]) -> Any:
    """The rows of several collects of ``counts`` steps, as ``obs>obs_next``."""
    rows = needs(library, "collected")([partial(Counter, length=length, end="T")], counts)
    return shown([(obs, after, 0.0, False, False) for obs, after in rows])


def infos_while_collecting(library: Any, *, infos: list[Any]) -> Any:
    """The number of rows collected from an environment whose infos change type."""
    make = partial(Counter, length=100, infos=infos)
    return {"rows": len(needs(library, "collected")([make], [2 * len(infos)]))}
