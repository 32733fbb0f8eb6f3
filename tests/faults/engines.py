"""Engines with rows, and a function that detects changes of them."""

from types import SimpleNamespace

import numpy as np

from rlfast import _core

CAPACITIES = [7, 4]


def engine(capacities=CAPACITIES, *, alpha=0.6, **options):
    """An empty engine, by default prioritized and of two rings."""
    return _core.Replay(capacities, batch=SimpleNamespace, alpha=alpha, seed=5, **options)


def add(replay, rows, *, width=6, first=0):
    """Defines the columns, where that has not been done, and adds rows to the rings in turn."""
    columns = {"obs": ("f4", (width,)), "obs_next": ("f4", (width,)), "act": ("i8", ()), "rew": ("f8", ())}
    if not replay.columns():
        flags = [((name,), np.dtype(bool), ()) for name in ("terminated", "truncated")]
        replay.define([((name,), np.dtype(kind), shape) for name, (kind, shape) in columns.items()] + flags)
    for number in range(first, first + rows):
        replay.add(
            {
                "obs": np.full((1, width), number, np.float32),
                "obs_next": np.full((1, width), number + 1, np.float32),
                "act": np.array([number]),
                "rew": np.array([number / 2]),
                "terminated": np.array([number % 5 == 4]),
                "truncated": np.array([False]),
            },
            np.array([number % len(replay.capacities)]),
        )
    return replay


def contents(replay):
    """Returns everything that the engine saves."""
    return replay.dump()
