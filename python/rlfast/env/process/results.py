"""Reads the results of steps from the shared memory and converts them into rows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlfast.env.backends.base import Rows, Tree
from rlfast.env.backends.info import Info
from rlfast.env.process.layout import WHOLE, Shapeless
from rlfast.env.process.protocol import AGAIN, EXTRA, ONLY_RESET, Places, Records, Views
from rlfast.env.spaces.collation import stacked_objects
from rlfast.utils import tree

Ids = NDArray[np.int64]
Extras = dict[int, dict[str, Any]]


class StepResults:
    """Reads the results of steps that workers have written to the shared memory.

    :param places: the layout of the shared memory.
    :param views: the arrays over it.
    :param records: the records in it.
    :param notes: the flags of the results, ``(N,)`` uint8.
    :param strict: as for :class:`~rlfast.env.process.protocol.Plan`.
    """

    def __init__(
        self, places: Places, views: Views, records: Records, notes: NDArray[np.uint8], *, strict: bool
    ) -> None:
        self.node, self.views, self.records, self.notes = places.obs, views, records, notes
        self._has_warned = False  # about observations that do not fit the space
        self._gather = tree.object_array if strict else stacked_objects
        self._is_plain = not strict and isinstance(places.obs, Shapeless) and places.obs.space == str(None)

    def extras(self, ids: Ids) -> Extras:
        """Reads the records of the environments ``ids``; the result maps row numbers to records."""
        noted = np.flatnonzero(self.notes[ids] & EXTRA).tolist()
        return {k: self.records.read(int(ids[k])) for k in noted}

    def rows(self, ids: Ids, numbers: tuple[Any, ...]) -> Rows:
        """Converts the results of the environments ``ids`` into rows.

        :param ids: the environments.
        :param numbers: their rewards, ``terminated``, ``truncated``, and the union of the flags of all results.
        """
        rew, terminated, truncated, noted = numbers
        extras = self.extras(ids) if noted & EXTRA else {}
        obs = self.obs(ids, extras)
        infos = {k: extra["info"] for k, extra in extras.items() if "info" in extra}
        rows = Rows(ids.copy(), obs, obs, rew, terminated, truncated, Info(len(ids), infos))
        if noted & AGAIN:
            again = np.flatnonzero(self.notes[ids] & AGAIN)
            rows.obs_next = self._finals(obs, ids, again, extras)
            known = [k for k in again.tolist() if k in extras]
            rows.final_info = Info(len(ids), {k: extras[k].get("final_info", {}) for k in known})
        if noted & ONLY_RESET:
            rows.valid = (self.notes[ids] & ONLY_RESET) == 0
        if extras and any("reward" in extra for extra in extras.values()):
            rows.rew = _vector_rewards(rew, extras)
        return rows

    def obs(self, ids: Ids, extras: Extras) -> Tree:
        """Returns copies of the observations of the environments ``ids``."""
        if len(ids) == len(self.notes):
            arrays = [view if view is None else view.copy() for view in self.views.obs]
        else:
            arrays = [view if view is None else view[ids] for view in self.views.obs]
        if extras and any("misfit" in extra for extra in extras.values()):
            return self._of_misfits(ids, extras, arrays)
        if self._is_plain:
            return tree.collate([extras[k]["obs"][0] for k in range(len(ids))])
        leaves = [
            array if array is not None else self._gather([extras[k]["obs"][number] for k in range(len(ids))])
            for number, array in enumerate(arrays)
        ]
        return self.node.join(iter(leaves))

    def _of_misfits(self, ids: Ids, extras: Extras, arrays: list[NDArray[Any] | None]) -> Tree:
        """Returns the observations if some of them do not fit the layout, and warns once."""
        rows = []
        for k in range(len(ids)):
            spill = extras.get(k, {}).get("obs", {})
            rows.append(spill[WHOLE] if WHOLE in spill else self.node.get(arrays, k, spill))
        if not self._has_warned:
            self._has_warned = True
            k, why = next((k, extra["misfit"]) for k, extra in extras.items() if "misfit" in extra)
            warnings.warn(
                f"environment {ids[k]} returned an observation that is not in its space: {why}. Such "
                "observations are passed on unchanged, but pickled, which is slower",
                stacklevel=7,
            )
        return tree.collate(rows)

    def _finals(self, obs: Tree, ids: Ids, again: Ids, extras: Extras) -> Tree:
        """Returns a copy of the observations in which the rows ``again`` have the final observations."""

        def replaced(number: int, array: NDArray[Any]) -> NDArray[Any]:
            array = array.copy()
            view = self.views.finals[number]
            if view is not None:
                array[again] = view[ids[again]]
            else:
                for k in again.tolist():
                    array[k] = extras[k]["final"][number]
            return array

        return self.node.join(replaced(number, array) for number, array in enumerate(self.node.split(obs)))


def _vector_rewards(rew: NDArray[Any], extras: Extras) -> NDArray[Any]:
    """Returns rewards ``(K, agents)`` for environments with one reward per agent; zeros for those that were only reset.

    :raises ValueError: others have one number, or another number of agents.
    """
    vectors = {k: extra["reward"] for k, extra in extras.items() if "reward" in extra}
    shapes = {vector.shape for vector in vectors.values()}
    others = np.delete(rew, [*vectors])
    if len(shapes) > 1 or others.any():
        found = sorted(shapes | ({()} if others.any() else set()))
        raise ValueError(f"rewards of all environments must be of one shape, got {found}")
    out = np.zeros((len(rew), *shapes.pop()))
    for k, vector in vectors.items():
        out[k] = vector
    return out
