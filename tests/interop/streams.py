"""Spaces of all kinds that SB3 supports, and random steps in them."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

IMAGE = spaces.Box(0, 255, (4, 20, 20), np.uint8)  # looks like a stack of frames
LAST = spaces.Box(0, 255, (36, 30, 4), np.uint8)  # and so does its last axis
OBSERVATIONS = {
    "box": spaces.Box(-1, 1, (3,)),
    "float64": spaces.Box(-1, 1, (2,), np.float64),
    "image": IMAGE,
    "last image": LAST,
    "discrete": spaces.Discrete(5),
    "multi-discrete": spaces.MultiDiscrete([3, 4]),
    "multi-binary": spaces.MultiBinary(4),
    "binary matrix": spaces.MultiBinary((2, 2)),
    "dict": spaces.Dict(vector=spaces.Box(-1, 1, (3,)), image=IMAGE, place=spaces.Discrete(4)),
}
ACTIONS = {
    "discrete": spaces.Discrete(3),
    "float64": spaces.Box(-1, 1, (2,), np.float64),
    "matrix": spaces.Box(-1, 1, (2, 2)),
    "multi-discrete": spaces.MultiDiscrete([2, 3]),
    "multi-binary": spaces.MultiBinary(3),
}


class Step(NamedTuple):
    """The arguments of ``add``."""

    obs: Any
    next_obs: Any
    action: Any
    reward: Any
    done: Any
    infos: list[dict[str, Any]]


def draw(space: spaces.Space, envs: int) -> Any:
    rows = [space.sample() for _ in range(envs)]
    if isinstance(space, spaces.Dict):
        return {key: np.stack([row[key] for row in rows]) for key in space}
    return np.stack(rows)


def pick(flags: np.ndarray, yes: Any, no: Any) -> Any:
    if isinstance(yes, dict):
        return {key: pick(flags, yes[key], no[key]) for key in yes}
    return np.where(flags.reshape(-1, *[1] * (yes.ndim - 1)), yes, no)


def slide(space: spaces.Space, obs: Any, fresh: Any) -> Any:
    """What follows ``obs``: of images the last frames and a new one, as from a frame stack."""
    if isinstance(space, spaces.Dict):
        return {key: slide(space[key], obs[key], fresh[key]) for key in space}
    if space == LAST:
        return np.concatenate((obs[..., 1:], fresh[..., :1]), axis=-1)
    return np.concatenate((obs[:, 1:], fresh[:, :1]), axis=1) if space == IMAGE else fresh


def steps(
    obs_space: spaces.Space, act_space: spaces.Space, envs: int, count: int, seed: int = 0, timeouts: float = 0.12
) -> Iterator[Step]:
    """Steps whose episodes end every few rows; some by a timeout, with or without ``done``."""
    rng = np.random.default_rng(seed)
    for space in (obs_space, act_space):
        space.seed(seed)
    obs = draw(obs_space, envs)
    for _ in range(count):
        next_obs = slide(obs_space, obs, draw(obs_space, envs))
        done, timeout = rng.random(envs) < 0.25, rng.random(envs) < timeouts
        infos = [{"TimeLimit.truncated": bool(flag)} if flag or rng.random() < 0.5 else {} for flag in timeout]
        yield Step(obs, next_obs, draw(act_space, envs), rng.normal(size=envs), done, infos)
        obs = pick(done | timeout, draw(obs_space, envs), next_obs)
