"""Buffers from the HDF5 files of D4RL (Fu et al., arXiv:2004.07219)."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np

from rlfast.data.datasets.d4rl import D4rlSource


def load(cls: type[Any], path: str | PathLike[str]) -> Any:
    """Makes a buffer from a file; see :meth:`ReplayBuffer.from_d4rl`."""
    if cls._is_manager:
        raise TypeError(f"a dataset goes into a buffer of one ring, not into a {cls.__name__}")
    with D4rlSource(path) as source:
        buffer = cls(source.length)
        for part in source.parts():
            buffer._core.add(part, np.zeros(len(part["rew"]), np.int64))
    return buffer
