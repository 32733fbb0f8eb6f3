"""Functions that concatenate, reorder and select rows of step results."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlfast.env.backends.base import Rows
from rlfast.env.backends.info import Info
from rlfast.utils import tree


def joined(first: Rows, second: Rows) -> Rows:
    """Returns the rows of ``first`` followed by those of ``second``."""
    both = (first, second)

    def leaves(name: str) -> Any:
        return tree.joined([getattr(rows, name) for rows in both])

    obs = leaves("obs")
    finals = [rows.final_info for rows in both]
    return Rows(
        env_id=leaves("env_id"),
        obs=obs,
        obs_next=obs if all(rows.obs is rows.obs_next for rows in both) else leaves("obs_next"),
        rew=leaves("rew"),
        terminated=leaves("terminated"),
        truncated=leaves("truncated"),
        info=Info.of([info for rows in both for info in rows.info.dicts()]),
        final_info=None
        if finals == [None, None]
        else Info.of([info for rows in both for info in (rows.final_info or Info(len(rows.env_id))).dicts()]),
        valid=None
        if first.valid is second.valid is None
        else np.concatenate([np.ones(len(rows.env_id), bool) if rows.valid is None else rows.valid for rows in both]),
        returns=None if first.returns is None or second.returns is None else leaves("returns"),
    )


def ordered(rows: Rows, ids: NDArray[np.int64]) -> Rows:
    """Returns the rows in the order of ``ids``, which name the same environments."""
    return take(rows, np.argsort(rows.env_id)[np.argsort(np.argsort(ids))])


def take(rows: Rows, place: NDArray[np.int64]) -> Rows:
    """Returns the rows with the indices ``place``, in this order."""

    def infos(info: Info | None) -> Info | None:
        if info is None:
            return None
        dicts = info.dicts() if info else [{}] * info.rows
        return Info.of([dicts[k] for k in place.tolist()])

    obs = tree.take(rows.obs, place)
    return Rows(
        env_id=rows.env_id[place],
        obs=obs,
        obs_next=obs if rows.obs_next is rows.obs else tree.take(rows.obs_next, place),
        rew=rows.rew[place],
        terminated=rows.terminated[place],
        truncated=rows.truncated[place],
        info=infos(rows.info) or Info(len(place)),
        final_info=infos(rows.final_info),
        valid=None if rows.valid is None else rows.valid[place],
        returns=None if rows.returns is None else rows.returns[place],
    )
