"""What environments were asked to do and have not answered yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rlfast.data import row_trees

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ids = NDArray[np.int64]


class PendingSteps:
    """Keeps what each environment acted on until its answer makes it a transition.

    Mostly all that were asked answer together and in order: then what was put is given back as it is.

    :param env_num: the number of environments.
    """

    def __init__(self, env_num: int) -> None:
        self._env_num = env_num
        self._latest: tuple[Ids, dict[str, Any]] | None = None  # the only question that is open
        self._table: dict[str, Any] = {}  # of all environments, when there are several
        self._open = np.zeros(env_num, dtype=bool)  # which of the table's rows are questions
        self._some_open = False

    @property
    def waiting(self) -> Ids:
        """Environments that were asked and have not answered."""
        return np.flatnonzero(self._open) if self._latest is None else self._latest[0]

    def idle(self, ids: Ids) -> Ids:
        """Those of ``ids`` that are not waited for."""
        if self._latest is None and not self._some_open:
            return ids
        return np.setdiff1d(ids, self.waiting, assume_unique=True)

    def put(self, ids: Ids, fields: dict[str, Any]) -> None:
        """``ids`` were asked; ``fields`` has a row for each."""
        if self._latest is None and not self._some_open:
            self._latest = ids, fields
            return
        self._spread()
        self._write(ids, fields)

    def take(self, ids: Ids) -> dict[str, Any]:
        """``ids`` have answered: the rows that were put for them, in this order."""
        if self._latest is not None:
            asked, fields = self._latest
            if len(ids) == len(asked) == self._env_num or ids.tobytes() == asked.tobytes():  # all come in order
                self._latest = None
                return fields
            self._spread()
        self._open[ids] = False
        self._some_open = bool(self._open.any())
        rows: dict[str, Any] = row_trees.take(self._table, ids)
        return rows

    def clear(self) -> None:
        """Nobody is waited for any more."""
        self._latest = None
        self._open[:] = self._some_open = False

    def _spread(self) -> None:
        """Moves the only question into the table."""
        if self._latest is not None:
            self._write(*self._latest)
            self._latest = None

    def _write(self, ids: Ids, fields: dict[str, Any]) -> None:
        self._table = {
            key: row_trees.put(self._table.get(key), ids, rows, self._env_num) for key, rows in fields.items()
        }
        self._open[ids] = self._some_open = True
