"""Infos on their way from the environments to the policy and into the buffer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rlfast.env.info import Info

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rlfast.env.backends.base import Rows

    Ids = NDArray[np.int64]


class LatestInfos:
    """What each environment last said of itself.

    :param env_num: the number of environments.
    """

    def __init__(self, env_num: int) -> None:
        self._env_num = env_num
        self._info = Info(env_num)

    def put(self, ids: Ids, info: Info) -> None:
        """News of the environments ``ids``."""
        if not (self._info or info):
            return
        if len(ids) == self._env_num and (ids[:-1] < ids[1:]).all():  # all of them, in order
            self._info = info
            return
        dicts = self._info.dicts()
        for i, one in zip(ids.tolist(), info.dicts(), strict=True):
            dicts[i] = one
        self._info = Info.of(dicts)

    def state(self) -> dict[str, Any]:
        """What was last said, in the form that it came in."""
        return {"columns": self._info._columns, "dicts": self._info.dicts()}  # noqa: SLF001 (in its own form)

    def set_state(self, state: dict[str, Any] | None) -> None:
        """Goes on from what :meth:`state` gave; None forgets."""
        if state is None:
            self._info = Info(self._env_num)
        elif state["columns"] is not None:
            self._info = Info(self._env_num, columns=state["columns"])
        else:
            self._info = Info.of(state["dicts"])

    def dicts(self) -> list[dict[str, Any]]:
        """One fresh dict for each environment."""
        return self._info.dicts()

    def columns(self, ids: Ids) -> dict[str, Any]:
        """A column of each key, with the ``env_id``: rows for ``ids``, in their order."""
        if not self._info:
            return {"env_id": ids}
        if len(ids) == self._env_num:
            return columns(ids, self._info)
        dicts = self._info.dicts()
        return columns(ids, Info.of([dicts[i] for i in ids.tolist()]))


def columns(ids: Ids, info: Info) -> dict[str, Any]:
    """A column of each key, with the ``env_id``; where an environment has no such key, zero, or None among objects."""
    return {**_unmasked(info.columns()), "env_id": ids} if info else {"env_id": ids}


def of_transitions(rows: Rows) -> dict[str, Any]:
    """The infos that belong to ``obs_next``, as columns."""
    if not rows.final_info:
        return columns(rows.env_id, rows.info)
    final, done = rows.final_info.dicts(), rows.done.tolist()
    merged = [final[k] if done[k] else one for k, one in enumerate(rows.info.dicts())]
    return columns(rows.env_id, Info.of(merged))


def _unmasked(columns: dict[str, Any]) -> dict[str, Any]:
    return {
        key: _unmasked(column) if isinstance(column, dict) else column
        for key, column in columns.items()
        if not (key.startswith("_") and key[1:] in columns)
    }
