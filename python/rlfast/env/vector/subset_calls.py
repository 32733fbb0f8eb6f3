"""Resets and steps of a subset of the environments in Gymnasium's protocol, as EnvPool and Tianshou's wrappers do."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from rlfast.env.backends.base import Tree
from rlfast.env.vector import gymnasium_protocol
from rlfast.env.vector.arguments import Ids, VectorStep
from rlfast.env.vector.base import BaseVectorEnv
from rlfast.utils import tree


def is_subset_call(envs: BaseVectorEnv, id: Ids | None) -> bool:
    """Whether ``id`` was given in Gymnasium's protocol, which resets and steps all environments only."""
    return id is not None and envs.autoreset_mode is not None


def reset(envs: BaseVectorEnv, id: Ids, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
    """Resets the environments ``id``.

    :return: their first observations, one row each in the order of ``id``, and infos, with the ``env_id`` of each row.
    """
    ids = envs._idle(id)  # noqa: SLF001
    obs, info = envs.reset_rows(ids, **kwargs)
    _remember(envs, obs, ids)
    return gymnasium_protocol.batched(envs.single_observation_space, obs), {**info.columns(), "env_id": ids}


def step(envs: BaseVectorEnv, action: Any, id: Ids | None) -> VectorStep:
    """Steps the environments ``id``.

    :param action: one action for each entry of ``id``; with asynchronous environments, None receives results without
        starting steps.
    :return: one row for each environment that answered, and infos with the ``env_id`` of each row. The rows are in the
        order of ``id``; those of asynchronous environments are in the order of arrival.
    """
    if envs.is_async:
        if action is not None:
            envs.send(action, id)
        rows = envs.recv()
    else:
        rows = envs._step_rows(action, id)  # noqa: SLF001
    _remember(envs, rows.obs, rows.env_id)
    infos = rows.info.columns()
    if envs.autoreset_mode is AutoresetMode.SAME_STEP and (done := rows.done).any():
        infos = {**gymnasium_protocol.final(rows, done), **infos}
    obs = gymnasium_protocol.batched(envs.single_observation_space, rows.obs)
    return obs, rows.rew, rows.terminated, rows.truncated, {**infos, "env_id": rows.env_id}


def _remember(envs: BaseVectorEnv, obs: Tree, ids: NDArray[np.int64]) -> None:
    """Stores the newest observations of ``ids``, which a later reset of other environments returns."""
    if len(ids) == envs.num_envs:
        envs._last_obs = tree.put(obs, ids, obs)  # noqa: SLF001
    elif envs._last_obs is not None:  # noqa: SLF001
        envs._last_obs = tree.put(envs._last_obs, ids, obs)  # noqa: SLF001
