"""One module for each library: its public interface, as the operations of the museum ask for it.

An adapter defines only what its library has. ``versions() -> dict`` is required; the other names, their arguments and
their answers are in :mod:`bench.museum.operations`. A function that is missing makes a case "does not apply", and so
does :class:`DoesNotApply`. No adapter knows the cases.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np


class DoesNotApply(Exception):
    """A library has no such feature; the text says which."""


class Slots:
    """Finds the index of rows in a buffer, as its samples name it."""

    def sample(self, count: int) -> dict[str, Any]:
        raise NotImplementedError

    def slots(self, rows: Iterable[int]) -> np.ndarray:
        found: dict[int, int] = {}
        wanted = list(rows)
        for _ in range(200):
            batch = self.sample(200)
            pairs = zip(np.ravel(batch["act"]), np.ravel(batch["index"]), strict=True)
            found |= {int(act): int(index) for act, index in pairs}
            if set(wanted) <= set(found):
                return np.array([found[row] for row in wanted])
        raise DoesNotApply("rows that are never drawn")
