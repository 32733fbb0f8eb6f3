"""The data of offline runs: reading it from any source, and checking that it fits the environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from rlfast.data import ReplayBuffer
from rlfast.data.datasets.actions import to_policy_form
from rlfast.data.datasets.buffers import append
from rlfast.data.datasets.opening import open_source
from rlfast.utils import RunningMeanStd

if TYPE_CHECKING:
    from rlfast.data.datasets.parts import Source
    from rlfast.env import VectorEnvNormObs


def load_data(
    source: str, obs_space: gym.Space[Any], act_space: gym.Space[Any], seed: int, reward_scale: float = 1.0
) -> ReplayBuffer:
    """Reads the data of a run into a buffer of one ring, with actions in the policy's form.

    An episode of the source that was still running counts as truncated at its newest row.

    :param source: see :func:`~rlfast.data.datasets.opening.open_source`.
    :param obs_space: observation space of the environment.
    :param act_space: action space of the environment.
    :param seed: seed of the draws.
    :param reward_scale: what rewards are multiplied by. Default: 1.
    :return: the buffer.
    :raises ValueError: if observations or actions do not fit the spaces, or there are none; see also
        :func:`~rlfast.data.datasets.opening.open_source`.
    """
    with open_source(source) as given:
        if not given.length:
            raise ValueError(f"{source} holds no transitions")
        buffer = ReplayBuffer(given.length, stack_num=given.stack_num, seed=seed)
        for part in given.parts():
            if given.in_environment_form:
                _check("actions", source, part["act"], act_space)
                part["act"] = to_policy_form(part["act"], act_space)
            if reward_scale != 1:
                part["rew"] = part["rew"] * reward_scale
            append(buffer, part)
    _check("observations", source, buffer.get(np.zeros(1, np.int64), "obs"), obs_space)
    _check("actions", source, buffer.act[:1], act_space)
    return buffer


def _check(what: str, source: str, rows: object, space: gym.Space[Any]) -> None:
    shape = getattr(rows, "shape", None)
    if isinstance(space, gym.spaces.Box | gym.spaces.Discrete) and shape is not None and shape[1:] != space.shape:
        raise ValueError(f"{what} in {source} are of shape {[*shape[1:]]}, those of the environment are {space}")


def normalize_by_data(buffer: ReplayBuffer, *envs: VectorEnvNormObs) -> None:
    """Scales observations of the data, and those of environments likewise, to mean 0 and variance 1 of the data.

    :param buffer: the data, which is changed.
    :param envs: the environments, whose statistics are set.
    :raises ValueError: if the observations of the data are integers, whose column cannot hold scaled ones.
    """
    statistics = RunningMeanStd()
    rows = buffer.sample_indices(0)
    obs, obs_next = buffer.obs[rows], buffer.get(rows, "obs_next")
    if obs.dtype.kind != "f":
        raise ValueError(f"observations of the data are {obs.dtype}, and scaled ones are not: set normalize_obs=False")
    statistics.update(obs)
    for one in envs:
        one.set_obs_rms(statistics)
    columns = buffer._meta  # noqa: SLF001 (two columns that are stored as one)
    columns.obs, columns.obs_next = (statistics.norm(one).astype(one.dtype) for one in (obs, obs_next))


def returns_of(source: Source) -> tuple[Any, Any]:
    """Returns the undiscounted returns and the lengths of the episodes of a dataset that have ended.

    :param source: the dataset. An episode that was still running counts as truncated at its newest row.
    :return: float64 ``[episodes]`` and int64 ``[episodes]``.
    :raises ValueError: if a reward is not finite.
    """
    returns, lengths = [np.empty(0)], [np.empty(0, np.int64)]
    total, rows, seen = 0.0, 0, 0
    for part in source.flags():
        rew = np.asarray(part["rew"], np.float64).reshape(len(part["rew"]), -1).sum(axis=1)
        if len(bad := np.flatnonzero(~np.isfinite(rew))):
            raise ValueError(f"reward {seen + bad[0]:,}, from 0, is {rew[bad[0]]}: correct it, or drop its episode")
        seen += len(rew)
        sums = np.append(0.0, np.cumsum(rew))
        ends = np.flatnonzero(part["terminated"] | part["truncated"]) + 1
        returns.append(np.diff(np.append(-total, sums[ends])))
        lengths.append(np.diff(np.append(-rows, ends)))
        last = ends[-1] if len(ends) else 0
        total = sums[-1] - sums[last] if len(ends) else total + sums[-1]
        rows = len(rew) - last if len(ends) else rows + len(rew)
    return np.concatenate(returns), np.concatenate(lengths)
