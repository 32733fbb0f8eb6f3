"""``preprocess_fn``: a function that changes the results of environments before they are used."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlfast.data.batch.batch import Batch, parse, wrap_nested
from rlfast.env.backends.base import Rows
from rlfast.env.backends.info import Info
from rlfast.utils import tree

Ids = NDArray[Any]


class Preprocessing:
    """Calls a ``preprocess_fn`` with the fields that it has parameters for, and applies the changes that it returns.

    After a reset the function is given ``obs``, ``info`` (an array of dicts) and ``env_id``; after a step ``obs_next``,
    ``rew``, ``terminated``, ``truncated``, ``done``, ``info``, ``policy``, ``env_id`` and ``act``. It returns a dict or
    a ``Batch`` of the fields that it changes, or None.

    :param function: the ``preprocess_fn``.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        parameters = inspect.signature(function).parameters.values()
        every = any(one.kind is one.VAR_KEYWORD for one in parameters)
        self._takes = None if every else {one.name for one in parameters}

    def of_reset(self, obs: object, info: Info, ids: Ids) -> tuple[Any, Info]:
        """Preprocess the result of a reset.

        :return: the first observations of ``ids``, and their infos.
        """
        changed = self._call(obs=wrap_nested(obs), info=np.array(info.dicts(), dtype=object), env_id=ids)
        if "obs" in changed:
            obs = as_arrays(parse(changed["obs"]))
        return obs, as_info(changed["info"], len(ids)) if "info" in changed else info

    def of_rows(self, transition: dict[str, Any], rows: Rows) -> tuple[Any, Info]:
        """Preprocess the result of a step; ``transition`` is changed in place.

        :return: the observations for the next actions, and their infos.
        """
        given = {key: transition[key] for key in ("obs_next", "rew", "terminated", "truncated", "info", "act")}
        policy = transition.get("policy", Batch())
        changed = self._call(**given, done=rows.done, policy=policy, env_id=rows.env_id)
        transition |= {key: parse(value) for key, value in changed.items() if key != "done"}  # the buffer computes done
        obs = as_arrays(transition["obs_next"])
        info = as_info(transition["info"], len(rows.env_id)) if "info" in changed else rows.info
        began = (
            np.zeros(len(rows.env_id), bool) if rows.valid is None else ~rows.valid
        )  # environments that were reset in this step
        if rows.obs is not rows.obs_next:
            began |= rows.done
        return (obs, info) if not began.any() else self._begun(np.flatnonzero(began), obs, info, rows)

    def _begun(self, where: Ids, obs: object, info: Info, rows: Rows) -> tuple[Any, Info]:
        """Replace the observations and infos of environments that reset themselves by preprocessed first ones."""
        dicts, fresh = info.dicts(), rows.info.dicts()
        own = Info.of([fresh[k] for k in where.tolist()])
        first, own = self.of_reset(tree.take(as_arrays(rows.obs), where), own, rows.env_id[where])
        for k, one in zip(where.tolist(), own.dicts(), strict=True):
            dicts[k] = one
        return tree.put(obs, where, first, len(rows.env_id)), Info.of(dicts)

    def _call(self, **fields: Any) -> dict[str, Any]:
        takes = self._takes
        given = fields if takes is None else {key: value for key, value in fields.items() if key in takes}
        changed = self._function(**given)
        return {} if changed is None else dict(changed.items())


def as_arrays(obs: object) -> Any:
    """Convert observations to the form that policies and buffers take: an array, or nested dicts of arrays."""
    return obs if isinstance(obs, np.ndarray) else tree.storable(obs)


def as_info(value: Batch | dict[str, Any] | Iterable[Mapping[str, Any]], rows: int) -> Info:
    """Convert infos of a ``preprocess_fn``: an array or list of dicts, or columns in a ``Batch`` or a dict.

    :param value: the infos.
    :param rows: the number of environments.
    """
    if isinstance(value, Batch | dict):
        columns = {key: tree.storable(column) for key, column in Batch(value).items() if key != "env_id"}
        return Info(rows, columns=columns or None)
    return Info.of([dict(one) for one in value])
