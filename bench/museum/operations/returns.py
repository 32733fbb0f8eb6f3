"""Advantages and n-step returns.

Adapters: ``gae(rew, value, value_next, terminated, truncated, gamma, gae_lambda)`` of ``(time, environment)`` arrays
returns the advantages. ``value_next`` is the value of the observation that a step led to, also at the end of an
episode. ``nstep(capacity, rows, n_step, gamma, value, prioritized)`` stores rows of one environment, and returns
pairs of an observation and its target, where ``value`` gives the values of an array of observations.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.museum.operations.rows import episodes, needs, scalar

__all__ = ["advantages", "nstep_targets", "ppo_with_a_batch_of_one", "values_not_given"]


def advantages(
    library: Any, *, ends: list[str], rew: Any, value: Any, value_next: Any, gamma: float, gae_lambda: float
) -> Any:
    """Advantages of a roll-out; ``ends`` has one string per environment."""
    flags = np.array([list(each) for each in ends]).T
    arrays = [np.array(each, np.float64).T for each in (rew, value, value_next)]
    gae = needs(library, "gae")
    result = gae(*arrays, flags == "T", flags == "t", gamma, gae_lambda)
    return np.asarray(result, np.float64).T


def values_not_given(library: Any, *, ends: str, value_next: list[float], changed: int) -> Any:
    """Whether the advantages of other episodes depend on the value at ``changed``."""
    gae = needs(library, "gae_without_values")

    def answer(number: float) -> np.ndarray:
        values = np.array(value_next, np.float64)
        values[changed] = number
        flags = np.array(list(ends))
        return np.asarray(gae(np.ones(len(ends)), values, flags == "T", flags == "t", 0.9, 0.8))

    first = next(place for place in range(changed, len(ends)) if ends[place] in "Tt")
    others = slice(first + 1, None)
    return {"depends": bool(np.abs(answer(5.0)[others] - answer(-1e6)[others]).max() > 1e-6)}


def nstep_targets(
    library: Any,
    *,
    capacity: int,
    ends: str,
    rew: list[float],
    n_step: int,
    gamma: float,
    prioritized: bool = False,
    optional: tuple[int, ...] = (),
    final: float | None = None,
    after_terminal: float | None = None,
) -> Any:
    """The target of each stored row, where observation ``n`` is worth ``1000 + n``.

    :param optional: rows that a library may leave out, since their episode still runs.
    :param after_terminal: what the observation after a terminal step is worth.
    """
    rows = episodes(ends, rew, final=final)
    terminal = [scalar(row.obs_next) for row in rows if row.terminated]

    def value(obs: np.ndarray) -> np.ndarray:
        obs = np.asarray(obs, np.float64)
        if after_terminal is None:
            return 1000.0 + obs
        return np.where(np.isin(obs, terminal), after_terminal, 1000.0 + obs)

    pairs = needs(library, "nstep")(capacity, rows, n_step, gamma, value, prioritized)
    found: dict[int, Any] = {}
    for obs, target in pairs:
        found.setdefault(round(scalar(obs)), set()).add("nan" if np.isnan(float(target)) else round(float(target), 4))
    for place in optional:
        found.setdefault(place, {"left out"})
    return {
        key: next(iter(answers)) if len(answers) == 1 else sorted(answers, key=str)
        for key, answers in sorted(found.items())
    }


def ppo_with_a_batch_of_one(library: Any, *, steps: int, batch_size: int) -> Any:
    """Whether the parameters are finite after a PPO update whose last minibatch has one sample."""
    return {"finite": bool(needs(library, "ppo_stays_finite")(steps, batch_size))}
