"""Gymnasium's protocol for vector environments: resets and steps of all environments, with batched values."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from rlfast.env.backends.base import Rows, Tree
from rlfast.env.backends.info import Info
from rlfast.env.spaces.batching import ARRAY_SPACES
from rlfast.env.vector.arguments import Ids, Seeds, VectorStep, as_seeds
from rlfast.env.vector.attributes import EnvAttributes
from rlfast.utils import tree


@dataclass
class ResetRequest:
    """The arguments of a reset."""

    ids: NDArray[np.int64] | None
    """The environments to reset; None means all."""
    seeds: int | Sequence[int | None] | None
    options: dict[str, Any] | None


class GymnasiumProtocol(EnvAttributes):
    """Implements resets and steps of Gymnasium's protocol with the primitives of :class:`BaseVectorEnv`."""

    _all: NDArray[np.int64]
    _last_obs: Tree | None
    """The newest observation of each environment; None before the first reset."""

    @abstractmethod
    def reset_rows(
        self, id: Ids | None = None, seed: Seeds = None, options: dict[str, Any] | None = None
    ) -> tuple[Tree, Info]: ...

    def _reset_request(
        self, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> ResetRequest:
        """Converts the arguments of Gymnasium's ``reset``.

        :param seed: an int, or one seed for each environment, including those that are not reset.
        :param options: given to the environments; ``options["reset_mask"]``, bools ``(N,)``, selects the environments.
        :return: the request for a reset of the selected environments.
        :raises TypeError: the mask is not an array of bools.
        :raises ValueError: the mask has the wrong shape or selects no environment, or the number of seeds is wrong.
        :raises RuntimeError: the mask selects a part of the environments, and not all of them have been reset before.
        """
        if options is None or "reset_mask" not in options:
            return ResetRequest(None, seed, options)
        as_seeds(seed, self._all)  # with a mask, too, there is one seed for each environment
        ids = np.flatnonzero(_mask(options["reset_mask"], self.num_envs))
        if len(ids) < self.num_envs and self._last_obs is None:
            raise RuntimeError("the first reset() must be of all environments: leave out the reset_mask")
        if seed is not None and not isinstance(seed, int | np.integer):
            seed = [seed[i] for i in ids.tolist()]
        return ResetRequest(ids, seed, {key: value for key, value in options.items() if key != "reset_mask"})

    def _reset_result(self, request: ResetRequest) -> tuple[Any, dict[str, Any]]:
        """Resets the requested environments.

        :return: the observations of all environments, batched, and the infos as a dict of arrays. Environments that are
            not reset keep their last observation and have no info.
        """
        obs, info = self.reset_rows(request.ids, request.seeds, request.options)
        if request.ids is None:
            self._last_obs = obs
        else:
            self._remember(obs, request.ids)
            info = Info(self.num_envs, dict(zip(request.ids.tolist(), info.dicts(), strict=True)))
        return batched(self.single_observation_space, self._last_obs), info.columns()

    def _step_result(self, rows: Rows, *, whole: bool = True) -> VectorStep:
        """Converts rows into Gymnasium's five values.

        :param rows: the rows of a step.
        :param whole: whether they are those of all environments, in order.
        """
        if whole:
            self._last_obs = rows.obs
        else:
            self._remember(rows.obs, rows.env_id)
        infos = rows.info.columns() if rows.info else {}
        if self.autoreset_mode is AutoresetMode.SAME_STEP and np.count_nonzero(done := rows.done):
            infos = {**_final(rows, done), **infos}
        obs = batched(self.single_observation_space, rows.obs)
        return obs, rows.rew, rows.terminated, rows.truncated, infos

    def _remember(self, obs: Tree, ids: NDArray[np.int64]) -> None:
        """Stores the newest observations of ``ids``, which a later reset of other environments returns."""
        if len(ids) == self.num_envs:
            self._last_obs = tree.put(obs, ids, obs)
        elif self._last_obs is not None:
            self._last_obs = tree.put(self._last_obs, ids, obs)


def _mask(mask: object, num_envs: int) -> NDArray[np.bool_]:
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


def _final(rows: Rows, done: NDArray[np.bool_]) -> dict[str, Any]:
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
    return tree.object_array(tree.copied(value) if copy else value)
