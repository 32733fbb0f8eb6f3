"""The data of offline runs: reading it from any source, and checking that it fits the environment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from rlfast.data import ReplayBuffer, VectorReplayBuffer
from rlfast.data.buffer.io import d4rl
from rlfast.utils import RunningMeanStd

if TYPE_CHECKING:
    from rlfast.env import VectorEnvNormObs

_HDF5 = b"\x89HDF\r\n\x1a\n"


def read_data(source: str) -> tuple[ReplayBuffer, bool]:
    """Reads a buffer.

    :param source: a file of :meth:`ReplayBuffer.save` or :meth:`ReplayBuffer.save_hdf5`, also of Tianshou; an HDF5 file
        of D4RL; or the id or the folder of a Minari dataset.
    :return: the buffer, and whether its actions are in the environment's form.
    :raises FileNotFoundError: if there is no such file.
    :raises ValueError: if it is damaged, or holds something else.
    :raises ImportError: if a library that reads it is missing.
    """
    path = Path(source)
    if path.is_dir():
        import_minari = _minari()
        return ReplayBuffer.from_minari(import_minari.MinariDataset(path / "data")), True
    if not path.exists():
        if path.suffix or source.startswith((".", "/")):
            raise FileNotFoundError(f"there is no file {source}, and it is no id of a Minari dataset")
        try:
            return ReplayBuffer.from_minari(_minari().load_dataset(source)), True
        except FileNotFoundError as error:
            raise FileNotFoundError(f"{source} is neither a file nor a Minari dataset of this machine") from error
    with path.open("rb") as file:
        is_hdf5 = file.read(len(_HDF5)) == _HDF5
    if not is_hdf5:
        return ReplayBuffer.load(path), False
    if d4rl.is_d4rl(path):
        return ReplayBuffer.from_d4rl(path), True
    try:
        return ReplayBuffer.load_hdf5(path), False
    except ValueError as error:
        if "does not hold a ReplayBuffer" not in str(error):
            raise
    return VectorReplayBuffer.load_hdf5(path), False


def _minari() -> Any:
    from rlfast.data.buffer.io.minari import require_minari

    return require_minari()


def load_data(source: str, obs_space: gym.Space[Any], act_space: gym.Space[Any], seed: int) -> ReplayBuffer:
    """Reads the data of a run into a buffer of one ring, with actions in the policy's form.

    An episode of the source that was still running counts as truncated at its newest row.

    :param source: see :func:`read_data`.
    :param obs_space: observation space of the environment.
    :param act_space: action space of the environment.
    :param seed: seed of the draws.
    :raises ValueError: if observations or actions do not fit the spaces, or there are none; see also
        :func:`read_data`.
    """
    given, is_of_environment = read_data(source)
    if not len(given):
        raise ValueError(f"{source} holds no transitions")
    buffer = ReplayBuffer(len(given), stack_num=given.stack_num, seed=seed)
    for ring in getattr(given, "buffers", [given]):
        if len(ring):
            buffer.update(ring)
            buffer.close_episodes()
    _check("observations", source, buffer.get(np.zeros(1, np.int64), "obs"), obs_space)
    _check("actions", source, buffer.act[:1], act_space)
    if is_of_environment:
        buffer.set_array_at_key(_policy_form(buffer.act, act_space), "act")
    return buffer


def _check(what: str, source: str, rows: Any, space: gym.Space[Any]) -> None:
    shape = getattr(rows, "shape", None)
    if isinstance(space, gym.spaces.Box | gym.spaces.Discrete) and shape is not None and shape[1:] != space.shape:
        raise ValueError(f"{what} in {source} are of shape {[*shape[1:]]}, those of the environment are {space}")


def _policy_form(act: Any, space: gym.Space[Any]) -> Any:
    """Returns actions of an environment as its policies give them: in [-1, 1], or counted from 0."""
    if isinstance(space, gym.spaces.Discrete):
        return np.asarray(act) - space.start
    if isinstance(space, gym.spaces.Box):
        width = np.maximum(space.high - space.low, np.finfo(np.float32).eps)
        return ((np.asarray(act) - space.low) * 2.0 / width - 1.0).astype(act.dtype)
    return act


def normalize_by_data(buffer: ReplayBuffer, envs: VectorEnvNormObs) -> None:
    """Scales observations of the data, and those of environments likewise, to mean 0 and variance 1 of the data.

    :param buffer: the data, which is changed.
    :param envs: the environments, whose statistics are set.
    """
    statistics = RunningMeanStd()
    rows = buffer.sample_indices(0)
    obs, obs_next = buffer.obs[rows], buffer.get(rows, "obs_next")
    statistics.update(obs)
    envs.set_obs_rms(statistics)
    columns = buffer._meta  # noqa: SLF001 (two columns that are stored as one)
    columns.obs, columns.obs_next = (statistics.norm(one).astype(one.dtype) for one in (obs, obs_next))


def returns_of(buffer: ReplayBuffer) -> Any:
    """Returns the undiscounted returns of the episodes of a buffer that have ended.

    :param buffer: the buffer.
    :return: float64 ``[episodes]``.
    """
    returns = []
    for ring in getattr(buffer, "buffers", [buffer]):
        rows = ring.sample_indices(0)
        sums = np.append(0.0, np.cumsum(np.asarray(ring.rew, np.float64)[rows]))
        ends = np.flatnonzero((ring.terminated | ring.truncated)[rows]) + 1
        returns.append(np.diff(np.append(0.0, sums[ends])))
    return np.concatenate(returns)
