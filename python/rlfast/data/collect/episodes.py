"""The running episodes of a collector's environments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlfast.data.batch.batch import Batch, wrap, wrap_nested
from rlfast.data.collect.observed import Before
from rlfast.env.backends.base import Rows
from rlfast.env.backends.info import Info
from rlfast.env.vector.arguments import as_seeds
from rlfast.utils import tree

Ids = NDArray[np.int64]


class Episodes:
    """What the next actions of ``N`` environments are chosen from, and which environments must be reset before.

    All methods take environments in ascending order.

    :param env_num: the number of environments, N.
    """

    def __init__(self, env_num: int) -> None:
        self.env_num = env_num
        self.obs: Any = None
        """The newest observations, leaves ``[N, ...]``."""
        self.info = Info(env_num)
        """The infos that belong to them."""
        self.hidden: Any = None
        """The policy's hidden state after the newest step, leaves ``[N, ...]``; zero where an episode begins."""
        self.before: Before | None = None
        """The transitions of the newest step."""
        self.stale = np.ones(env_num, dtype=bool)
        """``[N]``: must be reset before the next step."""
        self.unstepped = np.zeros(env_num, dtype=bool)
        """``[N]``: was reset and not stepped since."""
        self._unseeded = np.zeros(env_num, dtype=bool)  # whose next reset gets the seed of this collect

    def where(self, ids: Ids) -> Ids | None:
        """Return the ids as functions of trees take them: None for all environments."""
        return None if len(ids) == self.env_num else ids

    def show(self, ids: Ids, obs: object, info: Info) -> None:
        """Replace the newest observations and infos of ``ids``."""
        if len(ids) == self.env_num:
            self.obs, self.info = obs, info
            return
        self.obs = tree.put(self.obs, ids, obs, self.env_num)
        if self.info or info:
            dicts = self.info.dicts()
            for i, one in zip(ids.tolist(), info.dicts(), strict=True):
                dicts[i] = one
            self.info = Info.of(dicts)

    def infos(self, ids: Ids) -> Batch:
        """Return the newest infos of ``ids`` as columns."""
        info = self.info
        if len(ids) < self.env_num and info:
            dicts = info.dicts()
            info = Info.of([dicts[i] for i in ids.tolist()])
        return columns(ids, info)

    def begin(self, ids: Ids, obs: object, info: Info) -> None:
        """Record that ``ids`` were reset."""
        self.show(ids, obs, info)
        self.forget(ids)
        self.unstepped[ids] = True
        self.stale[ids] = False

    def forget(self, ids: Ids) -> None:
        """Set the hidden states of ``ids`` to zero."""
        if self.hidden is not None:
            self.hidden = tree.clear(self.hidden, ids)

    def end_all(self) -> None:
        """Require a reset of all environments."""
        self.stale[:] = True
        self.before = None

    def use_seeds_once(self) -> None:
        """Give a seed of reset arguments to the next reset of each environment, and to no reset after it."""
        self._unseeded[:] = True

    def seeded_once(self, ids: Ids, reset_kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments for a reset of ``ids``, with seeds only where :meth:`use_seeds_once` has left one."""
        if reset_kwargs.get("seed") is None:
            return reset_kwargs
        wanted = self._unseeded[ids].tolist()
        self._unseeded[ids] = False
        seeds = as_seeds(reset_kwargs["seed"], np.arange(self.env_num))
        return {**reset_kwargs, "seed": [seeds[i] if w else None for i, w in zip(ids.tolist(), wanted, strict=True)]}


def columns(ids: Ids, info: Info) -> Batch:
    """Return one column for each key, and ``env_id``. Where an environment lacks a key, its row is zero or None."""
    return wrap_nested({**info.values(), "env_id": ids}) if info else wrap({"env_id": ids})


def infos_of_transitions(rows: Rows) -> Batch:
    """Return the infos that belong to ``obs_next``, as columns: at the end of an episode, those of its last step."""
    if not rows.final_info:
        return columns(rows.env_id, rows.info)
    final, done = rows.final_info.dicts(), rows.done.tolist()
    return columns(rows.env_id, Info.of([final[k] if done[k] else one for k, one in enumerate(rows.info.dicts())]))
