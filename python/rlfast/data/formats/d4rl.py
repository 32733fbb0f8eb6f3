"""HDF5 files of D4RL (Fu et al., arXiv:2004.07219).

``timeouts`` are truncations. Files without ``next_observations`` do not say what followed the last row of an episode
that was cut off: that row is left out, and the row before it counts as truncated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlfast.data.datasets.parts import Part, Source, Writer, ranges, rows_at_once
from rlfast.data.formats.hdf5 import check_dataset, create_hdf5, member, open_hdf5

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike
    from pathlib import Path

_NEEDED = ("observations", "actions", "rewards", "terminals")
_CHUNK_CACHE = 32 << 20
"""Bytes of decompressed chunks that h5py keeps for each array: parts that share a chunk decompress it once."""
_COLUMNS = {"observations": "obs", "actions": "act", "next_observations": "obs_next"}


def is_d4rl(path: str | PathLike[str]) -> bool:
    """Returns whether an HDF5 file has the datasets of D4RL.

    :param path: the file.
    """
    with open_hdf5(path) as file:
        return {*_NEEDED} <= {*file}


class D4rlSource(Source):
    """The rows of a file.

    :param path: the file.
    :raises OSError: if it is no HDF5 file.
    :raises ValueError: if datasets are missing or hold no real numbers, or their lengths differ, or it is damaged.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self._file = open_hdf5(path, rdcc_nbytes=_CHUNK_CACHE)
        try:
            self._open(path)
        except BaseException:
            self._file.close()
            raise

    def _open(self, path: str | PathLike[str]) -> None:
        names = (*_NEEDED, "timeouts", "next_observations")
        found = {name: member(self._file, name) for name in names}
        self._sets = {name: one for name, one in found.items() if one is not None}
        if missing := [name for name in _NEEDED if name not in self._sets]:
            raise ValueError(f"{path} is no file of D4RL: it has no {', '.join(missing)}")
        for name, column in self._sets.items():
            check_dataset(column)
            if column.dtype.kind not in "biuf":
                raise ValueError(f"{path} is no file of D4RL: {name} has the dtype {column.dtype}, not real numbers")
        lengths = {name: column.shape[0] if column.shape else None for name, column in self._sets.items()}
        if len({*lengths.values()}) > 1 or None in lengths.values():
            raise ValueError(f"{path} is damaged: the lengths of its datasets differ: {lengths}")
        if "timeouts" not in self._sets and "next_observations" not in self._sets:
            raise ValueError(f"{path} has neither timeouts nor next_observations: ends of episodes cannot be known")
        self._terminated = self._column("terminals").astype(bool)
        self._truncated, self._kept = self._ends()
        super().__init__(int(self._kept.sum()), in_environment_form=True)

    def _column(self, name: str) -> NDArray[Any]:
        """Returns a dataset of one number a row."""
        column = self._sets[name]
        if column.size != len(column):
            raise ValueError(
                f"{self._file.filename} is damaged: {name} is of shape {column.shape}, not one number a row"
            )
        return np.asarray(column[:]).reshape(-1)

    def _ends(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Returns which rows end an episode that was cut off, and which rows have an ``obs_next``."""
        terminated = self._terminated
        if "timeouts" in self._sets:
            truncated = self._column("timeouts").astype(bool) & ~terminated
        else:  # an episode was cut off where the next row begins elsewhere
            truncated = self._jumps() & ~terminated
        kept = np.ones(len(terminated), np.bool_)
        if "next_observations" in self._sets:
            truncated[-1:] |= ~terminated[-1:]
            return truncated, kept
        unknown = truncated.copy()
        unknown[-1:] |= ~terminated[-1:]
        truncated[:-1] |= unknown[1:] & ~terminated[:-1]
        return truncated, ~unknown

    def _jumps(self) -> NDArray[np.bool_]:
        obs, following = self._sets["observations"], self._sets["next_observations"]
        found = np.ones(len(obs), np.bool_)
        for place in ranges(len(obs) - 1, rows_at_once(self._sets)):
            one, next_one = obs[place.start + 1 : place.stop + 1], following[place]
            other = (one != next_one) & ((one == one) | (next_one == next_one))  # noqa: PLR0124 (NaN goes on as NaN)
            found[place] = other.reshape(len(other), -1).any(axis=1)
        return found

    def parts(self) -> Iterator[Part]:
        """Returns all rows, in order."""
        follows = "next_observations" in self._sets
        for place in ranges(len(self._terminated), rows_at_once(self._sets)):
            names = _COLUMNS if follows else {"actions": "act"}
            columns = {key: self._sets[name][place] for name, key in names.items()}
            if not follows:
                columns |= self._observations(place)
            part = columns | self._flags(place)
            kept = np.flatnonzero(self._kept[place])
            if len(kept):
                whole = len(kept) == len(part["rew"])
                yield part if whole else {name: column.take(kept, axis=0) for name, column in part.items()}

    def _observations(self, place: slice) -> Part:
        """Returns ``obs`` of rows, and the observations of the rows after them."""
        both = self._sets["observations"][place.start : place.stop + 1]
        if len(both) == place.stop - place.start:  # the last row leads to a terminal state, or is left out
            both = np.concatenate([both, both[-1:]])
        return {"obs": both[:-1], "obs_next": both[1:]}

    def flags(self) -> Iterator[Part]:
        """Returns ``rew``, ``terminated`` and ``truncated`` of all rows, in order."""
        part = self._flags(slice(None))
        yield {name: column[self._kept] for name, column in part.items()}

    def _flags(self, place: slice) -> Part:
        rew = np.asarray(self._sets["rewards"][place], np.float64).reshape(-1)
        return {"rew": rew, "terminated": self._terminated[place], "truncated": self._truncated[place]}


class D4rlWriter(Writer):
    """A file with ``next_observations``. Columns that D4RL does not have, such as ``info``, are left out.

    :param path: the file.
    :param length: number of rows that will come.
    :param stack_num: see :class:`Source`.
    """

    stacks_rows = False

    def __init__(self, path: Path, length: int, stack_num: int = 1) -> None:
        super().__init__(path, length, stack_num)
        self._file = create_hdf5(path)

    def write(self, part: Part) -> None:
        """Appends rows.

        :param part: the rows.
        :raises ValueError: if observations or actions are nested.
        """
        columns = {name: part[key] for name, key in _COLUMNS.items()}
        for name, column in columns.items():
            if isinstance(column, dict):
                raise ValueError(f"{name} of D4RL are arrays, and these are dicts with {', '.join(column)}")
        columns |= {"rewards": np.asarray(part["rew"], np.float32)}
        columns |= {"terminals": part["terminated"], "timeouts": part["truncated"] & ~part["terminated"]}
        for name, column in columns.items():
            self._append(self._file, name, column)
        self._rows += len(part["rew"])
