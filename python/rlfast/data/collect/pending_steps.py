"""Steps that were sent to environments and have not returned yet."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlfast.utils import tree

Ids = NDArray[np.int64]


class PendingSteps:
    """Keeps the observations and actions that were sent until the environments return the rest of the transitions.

    Usually all environments return together and in order; then the fields are returned as they were put, without a
    copy.

    :param env_num: the number of environments.
    """

    def __init__(self, env_num: int) -> None:
        self._env_num = env_num
        self._latest: tuple[Ids, dict[str, Any]] | None = None  # the only vector step that is pending
        self._table: dict[str, Any] = {}  # one row for each environment, when several vector steps are pending
        self._open = np.zeros(env_num, dtype=bool)  # which rows of the table are pending steps
        self._some_open = False

    @property
    def waiting(self) -> Ids:
        """The environments with a pending step."""
        return np.flatnonzero(self._open) if self._latest is None else self._latest[0]

    def idle(self, ids: Ids) -> Ids:
        """Returns those of ``ids`` that have no pending step."""
        if self._latest is None and not self._some_open:
            return ids
        return np.setdiff1d(ids, self.waiting, assume_unique=True)

    def put(self, ids: Ids, fields: dict[str, Any]) -> None:
        """Records that steps were sent to ``ids``; ``fields`` has a row for each."""
        if self._latest is None and not self._some_open:
            self._latest = ids, fields
            return
        self._spread()
        self._write(ids, fields)

    def take(self, ids: Ids) -> dict[str, Any]:
        """Records that the steps of ``ids`` have returned, and returns the rows that were put for them, in order."""
        if self._latest is not None:
            sent, fields = self._latest
            if len(ids) == len(sent) == self._env_num or ids.tobytes() == sent.tobytes():  # all return in order
                self._latest = None
                return fields
            self._spread()
        self._open[ids] = False
        self._some_open = bool(self._open.any())
        rows: dict[str, Any] = tree.take(self._table, ids)
        return rows

    def clear(self) -> None:
        """Forgets all pending steps."""
        self._latest = None
        self._open[:] = self._some_open = False

    def _spread(self) -> None:
        """Moves the only pending vector step into the table."""
        if self._latest is not None:
            self._write(*self._latest)
            self._latest = None

    def _write(self, ids: Ids, fields: dict[str, Any]) -> None:
        self._table = {key: tree.put(self._table.get(key), ids, rows, self._env_num) for key, rows in fields.items()}
        self._open[ids] = self._some_open = True
