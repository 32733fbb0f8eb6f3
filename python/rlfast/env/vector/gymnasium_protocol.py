"""Gymnasium's protocol for vector environments, implemented with the primitives of :class:`BaseVectorEnv`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from rlfast.env.backends.base import Rows, Tree
from rlfast.env.info import Info
from rlfast.env.spaces import ARRAY_SPACES
from rlfast.env.vector.arguments import Ids, Seeds, as_seeds
from rlfast.utils import tree


class Environments(Protocol):
    """The attributes and methods of a vector environment that this module uses."""

    num_envs: int
    autoreset_mode: AutoresetMode | None
    single_observation_space: Any
    _all: NDArray[np.int64]
    _last_obs: Tree | None

    def reset_rows(self, id: Ids | None, seed: Seeds, options: dict[str, Any] | None) -> tuple[Tree, Info]: ...
    def _step_rows(self, action: Any) -> Rows: ...


@dataclass
class ResetRequest:
    """The arguments of a reset."""

    ids: NDArray[np.int64] | None
    """The environments to reset; None means all."""
    seeds: int | Sequence[int | None] | None
    options: dict[str, Any] | None


def reset_request(
    envs: Environments, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
) -> ResetRequest:
    """Converts the arguments of Gymnasium's ``reset``.

    :param envs: the vector environment.
    :param seed: an int, or one seed for each environment of ``envs``, including those that are not reset.
    :param options: given to the environments; ``options["reset_mask"]``, bools ``(N,)``, selects the environments.
    :return: the request for a reset of the selected environments.
    :raises TypeError: the mask is not an array of bools.
    :raises ValueError: the mask has the wrong shape or selects no environment, or the number of seeds is wrong.
    :raises RuntimeError: the mask selects a part of the environments, and not all of them have been reset before.
    """
    if options is None or "reset_mask" not in options:
        return ResetRequest(None, seed, options)
    as_seeds(seed, envs._all)  # noqa: SLF001 - with a mask, too, there is one seed for each environment of ``envs``
    ids = np.flatnonzero(_mask(options["reset_mask"], envs.num_envs))
    if len(ids) < envs.num_envs and envs._last_obs is None:  # noqa: SLF001
        raise RuntimeError("the first reset() must be of all environments: leave out the reset_mask")
    if seed is not None and not isinstance(seed, int | np.integer):
        seed = [seed[i] for i in ids.tolist()]
    return ResetRequest(ids, seed, {key: value for key, value in options.items() if key != "reset_mask"})


def reset(envs: Environments, request: ResetRequest) -> tuple[Any, dict[str, Any]]:
    """Resets the requested environments.

    :return: the observations of all environments, batched, and the infos as a dict of arrays. Environments that are
        not reset keep their last observation and have no info.
    """
    obs, info = envs.reset_rows(request.ids, request.seeds, request.options)
    if request.ids is None:
        envs._last_obs = obs  # noqa: SLF001
        return last_obs(envs), info.columns()
    ids = request.ids
    envs._last_obs = obs if len(ids) == envs.num_envs else tree.put(envs._last_obs, ids, obs)  # noqa: SLF001
    return last_obs(envs), Info(envs.num_envs, dict(zip(ids.tolist(), info.dicts(), strict=True))).columns()


def _mask(mask: Any, num_envs: int) -> NDArray[np.bool_]:
    if not isinstance(mask, np.ndarray):
        raise TypeError(f"`options['reset_mask']` must be a numpy array, got {type(mask)}")
    if mask.shape != (num_envs,):
        raise ValueError(f"`options['reset_mask']` must have shape `({num_envs},)`, got {mask.shape}")
    if mask.dtype != np.bool_:
        raise TypeError(f"`options['reset_mask']` must have `dtype=np.bool_`, got {mask.dtype}")
    if not mask.any():
        raise ValueError(
            f"`options['reset_mask']` must contain a boolean array with at least one True value, got reset_mask={mask}"
        )
    return mask


def step(
    envs: Environments, actions: Any
) -> tuple[Any, NDArray[Any], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
    """Steps all environments and returns Gymnasium's five values."""
    return step_result(envs, envs._step_rows(actions))  # noqa: SLF001


def step_result(
    envs: Environments, rows: Rows
) -> tuple[Any, NDArray[Any], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
    """Converts the rows of a step of all environments into Gymnasium's five values."""
    envs._last_obs = rows.obs  # noqa: SLF001
    infos = rows.info.columns() if rows.info else {}
    if envs.autoreset_mode is AutoresetMode.SAME_STEP and np.count_nonzero(done := rows.done):
        infos = {**final(rows, done), **infos}
    return last_obs(envs), rows.rew, rows.terminated, rows.truncated, infos


def final(rows: Rows, done: NDArray[np.bool_]) -> dict[str, Any]:
    """Returns the info entries ``final_obs`` and ``final_info`` of the episodes that ended, for SAME_STEP.

    :param rows: the result of a step.
    :param done: where an episode ended, bools ``(K,)``.
    """
    obs = tree.object_array([None] * len(done))
    ended = tree.each(rows.obs_next)
    for k in np.flatnonzero(done):
        obs[k] = ended[k]
    info = {} if rows.final_info is None else rows.final_info.columns()
    return {"final_obs": obs, "_final_obs": done, "final_info": info, "_final_info": done.copy()}


def last_obs(envs: Environments) -> Any:
    """Returns the newest observation of each environment, batched as by :func:`batched`."""
    return batched(envs.single_observation_space, envs._last_obs)  # noqa: SLF001


def batched(space: gym.Space[Any], values: Tree) -> Any:
    """Converts observations or actions with leaves ``(N, ...)`` into the form in which Gymnasium batches them.

    :param space: the space of one environment.
    :param values: the leaves; those of spaces without a shape are object arrays.
    :return: the same, with a tuple in the place of each object array.
    """
    if isinstance(space, ARRAY_SPACES):
        return values
    if isinstance(space, gym.spaces.Dict):
        return {key: batched(part, values[key]) for key, part in space.items()}
    if isinstance(space, gym.spaces.Tuple):
        return tuple(batched(part, leaf) for part, leaf in zip(space, values, strict=True))
    return tuple(values)


def unbatched(space: gym.Space[Any], value: Any, *, copy: bool) -> Tree:
    """Reverses :func:`batched`: returns leaves ``(N, ...)`` with the dtypes of ``space``.

    :param space: the space of one environment.
    :param value: batched observations.
    :param copy: whether to copy arrays that already have the right dtype.
    """
    if isinstance(space, gym.spaces.Dict):
        return {key: unbatched(part, value[key], copy=copy) for key, part in space.items()}
    if isinstance(space, gym.spaces.Tuple):
        return tuple(unbatched(part, leaf, copy=copy) for part, leaf in zip(space, value, strict=True))
    if isinstance(space, ARRAY_SPACES):
        return np.array(value, dtype=space.dtype) if copy else np.asarray(value, dtype=space.dtype)
    return tree.object_array(value)
