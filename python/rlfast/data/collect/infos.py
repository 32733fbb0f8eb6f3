"""The infos of environments, as columns for the policy and the buffer."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlfast.env.backends.base import Rows
from rlfast.env.backends.info import Info

Ids = NDArray[np.int64]


class LatestInfos:
    """The newest info of each environment.

    :param env_num: the number of environments.
    """

    def __init__(self, env_num: int) -> None:
        self._env_num = env_num
        self._info = Info(env_num)

    def put(self, ids: Ids, info: Info) -> None:
        """Replaces the infos of the environments ``ids``."""
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
        """Returns the infos for a checkpoint, as columns if they came as columns, and as dicts."""
        return {"columns": self._info._columns, "dicts": self._info.dicts()}  # noqa: SLF001 (the columns without conversion)

    def set_state(self, state: dict[str, Any] | None) -> None:
        """Restores what :meth:`state` returned; None clears all infos."""
        if state is None:
            self._info = Info(self._env_num)
        elif state["columns"] is not None:
            self._info = Info(self._env_num, columns=state["columns"])
        else:
            self._info = Info.of(state["dicts"])

    def dicts(self) -> list[dict[str, Any]]:
        """Returns a new dict for each environment."""
        return self._info.dicts()

    def columns(self, ids: Ids) -> dict[str, Any]:
        """Returns one column for each key, and ``env_id``, with a row for each of ``ids``, in their order."""
        if not self._info:
            return {"env_id": ids}
        if len(ids) == self._env_num:
            return columns(ids, self._info)
        dicts = self._info.dicts()
        return columns(ids, Info.of([dicts[i] for i in ids.tolist()]))


def columns(ids: Ids, info: Info) -> dict[str, Any]:
    """Returns one column for each key, and ``env_id``. Where an environment lacks a key, its row is zero or None."""
    return {**info.values(), "env_id": ids} if info else {"env_id": ids}


def of_transitions(rows: Rows) -> dict[str, Any]:
    """Returns the infos that belong to ``obs_next``, as columns: at the end of an episode, those of its last step."""
    if not rows.final_info:
        return columns(rows.env_id, rows.info)
    final, done = rows.final_info.dicts(), rows.done.tolist()
    merged = [final[k] if done[k] else one for k, one in enumerate(rows.info.dicts())]
    return columns(rows.env_id, Info.of(merged))
