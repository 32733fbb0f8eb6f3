"""Gymnasium's protocol for vector environments, said with the primitives of ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from rlfast.env import nested
from rlfast.env.info import Info
from rlfast.env.spaces import ARRAY_SPACES
from rlfast.env.vector.arguments import as_seeds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rlfast.env.backends.base import Rows, Tree
    from rlfast.env.vector.arguments import Ids, Seeds


class Environments(Protocol):
    """What is asked of the vector environment that speaks Gymnasium's protocol."""

    num_envs: int
    autoreset_mode: AutoresetMode | None
    single_observation_space: Any
    _all: NDArray[np.int64]
    _shown: Tree | None

    def reset_rows(self, id: Ids | None, seed: Seeds, options: dict[str, Any] | None) -> tuple[Tree, Info]: ...
    def _step_rows(self, action: Any) -> Rows: ...


@dataclass
class Reset:
    """What a reset is asked for."""

    ids: NDArray[np.int64] | None
    """None: all environments."""
    seeds: int | Sequence[int | None] | None
    options: dict[str, Any] | None


def asked(
    envs: Environments, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
) -> Reset:
    """A reset of all environments, or of those of ``options["reset_mask"]``."""
    if options is None or "reset_mask" not in options:
        return Reset(None, seed, options)
    as_seeds(seed, envs._all)  # noqa: SLF001 - one for each of all, also where some are reset
    ids = np.flatnonzero(_mask(options["reset_mask"], envs.num_envs))
    if len(ids) < envs.num_envs and envs._shown is None:  # noqa: SLF001
        raise RuntimeError("the first reset() must be of all environments: leave out the reset_mask")
    if seed is not None and not isinstance(seed, int | np.integer):
        seed = [seed[i] for i in ids.tolist()]
    return Reset(ids, seed, {key: value for key, value in options.items() if key != "reset_mask"})


def reset(envs: Environments, ask: Reset) -> tuple[Any, dict[str, Any]]:
    """Resets; environments that are not asked show what they showed last."""
    obs, info = envs.reset_rows(ask.ids, ask.seeds, ask.options)
    if ask.ids is None:
        envs._shown = obs  # noqa: SLF001
        return shown(envs), info.columns()
    envs._shown = obs if len(ask.ids) == envs.num_envs else nested.put(envs._shown, obs, ask.ids)  # noqa: SLF001
    return shown(envs), Info(envs.num_envs, dict(zip(ask.ids.tolist(), info.dicts(), strict=True))).columns()


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
    """Steps all environments."""
    return answer(envs, envs._step_rows(actions))  # noqa: SLF001


def answer(
    envs: Environments, rows: Rows
) -> tuple[Any, NDArray[Any], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
    """What came of a step of all environments."""
    envs._shown = rows.obs  # noqa: SLF001
    infos = rows.info.columns() if rows.info else {}
    if envs.autoreset_mode is AutoresetMode.SAME_STEP and np.count_nonzero(done := rows.done):
        infos = {**final(rows, done), **infos}
    return shown(envs), rows.rew, rows.terminated, rows.truncated, infos


def final(rows: Rows, done: NDArray[np.bool_]) -> dict[str, Any]:
    """SAME_STEP: what infos tell of the episodes that ended."""
    obs = nested.objects([None] * len(done))
    ended = nested.each(rows.obs_next)
    for k in np.flatnonzero(done):
        obs[k] = ended[k]
    info = {} if rows.final_info is None else rows.final_info.columns()
    return {"final_obs": obs, "_final_obs": done, "final_info": info, "_final_info": done.copy()}


def shown(envs: Environments) -> Any:
    """The observations as Gymnasium batches them: elements of spaces without a shape are in a tuple."""
    return batched(envs.single_observation_space, envs._shown)  # noqa: SLF001


def batched(space: gym.Space[Any], tree: Tree) -> Any:
    """Leaves ``(N, ...)`` of elements of ``space`` as Gymnasium batches them."""
    if isinstance(space, ARRAY_SPACES):
        return tree
    if isinstance(space, gym.spaces.Dict):
        return {key: batched(part, tree[key]) for key, part in space.items()}
    if isinstance(space, gym.spaces.Tuple):
        return tuple(batched(part, leaf) for part, leaf in zip(space, tree, strict=True))
    return tuple(tree)


def unbatched(space: gym.Space[Any], value: Any, *, copy: bool) -> Tree:
    """The reverse of :func:`batched`: what there is for elements of ``space``, with their dtypes."""
    if isinstance(space, gym.spaces.Dict):
        return {key: unbatched(part, value[key], copy=copy) for key, part in space.items()}
    if isinstance(space, gym.spaces.Tuple):
        return tuple(unbatched(part, leaf, copy=copy) for part, leaf in zip(space, value, strict=True))
    if isinstance(space, ARRAY_SPACES):
        return np.array(value, dtype=space.dtype) if copy else np.asarray(value, dtype=space.dtype)
    return nested.objects(value)
