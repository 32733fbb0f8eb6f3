"""Reading of the HDF5 files of D4RL (Fu et al., arXiv:2004.07219)."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np

from rlfast.data.hdf5 import require_h5py

_NEEDED = ("observations", "actions", "rewards", "terminals")


def is_d4rl(path: str | PathLike[str]) -> bool:
    """Returns whether an HDF5 file has the datasets of D4RL.

    :param path: the file.
    """
    with require_h5py().File(path, "r") as file:
        return all(name in file for name in _NEEDED)


def load(cls: type[Any], path: str | PathLike[str]) -> Any:
    """Makes a buffer from a file; see :meth:`ReplayBuffer.from_d4rl`."""
    if cls._is_manager:
        raise TypeError(f"a dataset goes into a buffer of one ring, not into a {cls.__name__}")
    with require_h5py().File(path, "r") as file:
        columns = {name: file[name] for name in (*_NEEDED, "timeouts", "next_observations") if name in file}
        if missing := [name for name in _NEEDED if name not in columns]:
            raise ValueError(f"{path} is no file of D4RL: it has no {', '.join(missing)}")
        lengths = {name: len(column) if column.shape else None for name, column in columns.items()}
        if len({*lengths.values()}) > 1 or None in lengths.values():
            raise ValueError(f"{path} is damaged: the lengths of its datasets differ: {lengths}")
        arrays: dict[str, Any] = {name: column[:] for name, column in columns.items()}
    return _buffer(cls, path, arrays)


def _buffer(cls: type[Any], path: Any, arrays: dict[str, Any]) -> Any:
    obs, rew = arrays["observations"], np.asarray(arrays["rewards"], np.float64)
    terminated = np.asarray(arrays["terminals"]).astype(bool)
    following = arrays.get("next_observations")
    if "timeouts" in arrays:
        truncated = np.asarray(arrays["timeouts"]).astype(bool) & ~terminated
    elif following is not None:  # an episode was cut off where the next row begins elsewhere
        jumps = (following[:-1] != obs[1:]).reshape(len(obs) - 1, -1).any(axis=1)
        truncated = np.append(jumps, True)[: len(obs)] & ~terminated
    else:
        raise ValueError(f"{path} has neither timeouts nor next_observations: ends of episodes cannot be known")
    kept = np.ones(len(obs), bool)
    if following is None:
        # what followed the last row of an episode that was cut off is not there: the row before it becomes the last
        following = np.concatenate([obs[1:], obs[-1:]])
        unknown = truncated.copy()
        unknown[-1:] |= ~terminated[-1:]
        kept = ~unknown
        truncated[:-1] |= unknown[1:] & ~terminated[:-1]
    elif len(obs):
        truncated[-1] |= not terminated[-1]
    columns = {"obs": obs, "act": arrays["actions"], "rew": rew, "terminated": terminated, "truncated": truncated}
    columns["obs_next"] = following
    columns = {name: column[kept] for name, column in columns.items()}
    return cls.from_data(**columns, done=columns["terminated"])
