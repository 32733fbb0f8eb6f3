"""A buffer on disk, and between processes."""

from __future__ import annotations

from os import PathLike
from typing import Any, Self, TypeAlias

import numpy as np

from rlfast.data.buffer import _hdf5, _minari, _snapshot
from rlfast.data.buffer._attributes import Attributes
from rlfast.data.buffer._priorities import Priorities

PathType: TypeAlias = str | PathLike[str]


def draw_seed(seed: int | None) -> int:
    """The seed, or one drawn from NumPy's global generator, so that ``np.random.seed`` still repeats a run."""
    return int(np.random.randint(2**63 - 1, dtype=np.int64)) if seed is None else int(seed)


class Files(Priorities, Attributes):
    """Snapshots, HDF5 files of Tianshou's layout, and pickles."""

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key not in ("_core", "append")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__dict__["_core"] = self._store.core
        self._bind()

    def save(self, path: PathType, *, allow_pickle: bool = False) -> None:
        """Writes a snapshot: rows, priorities, running episodes and random streams; see :meth:`load`.

        :param path: the file; a whole previous one stays until the new one is complete.
        :param allow_pickle: pickle object columns and functions into it.
        :raises TypeError: there are object columns, and ``allow_pickle`` is False.
        :raises ValueError: the buffer is part of a manager.
        """
        _snapshot.save(self, path, allow_pickle=allow_pickle)

    @classmethod
    def load(
        cls, path: PathType, *, allow_pickle: bool = False, storage: str = "ram", compute_reward_fn: Any = None
    ) -> Self:
        """The buffer that :meth:`save` wrote; it goes on exactly as that one would have.

        A subclass of your own is made without calling its ``__init__``.

        :param path: the file.
        :param allow_pickle: unpickle what was pickled into it: only from files you trust.
        :param storage: ``"ram"``, or a folder for columns in memory-mapped files.
        :param compute_reward_fn: of a buffer with hindsight, unless it was pickled.
        :raises ValueError: not a whole snapshot of such a buffer.
        :raises TypeError: the reward function is missing.
        """
        return _snapshot.load(
            cls, path, allow_pickle=allow_pickle, storage=storage, compute_reward_fn=compute_reward_fn
        )

    def save_hdf5(self, path: PathType, compression: str | None = None) -> None:
        """Writes Tianshou's HDF5 layout, which Tianshou 1.0 can load.

        :param path: the file; a whole previous one stays until the new one is complete.
        :param compression: as for ``h5py``: ``"gzip"``, ``"lzf"`` or None.
        :raises ValueError: the buffer has a unit, which that layout has no place for.
        """
        _hdf5.save(self, path, compression)

    @classmethod
    def load_hdf5(
        cls,
        path: PathType,
        device: str | None = None,  # noqa: ARG003
        *,
        allow_pickle: bool = False,
        seed: int | None = None,
        storage: str = "ram",
    ) -> Self:
        """The buffer in a file of Tianshou's HDF5 layout, written by either library.

        :param path: the file.
        :param device: accepted for compatibility; rows are held as NumPy arrays.
        :param allow_pickle: unpickle any class or function, such as the reward function of a hindsight buffer: only
            from files you trust.
        :param seed: of the random streams, which the layout does not hold; None draws one from ``np.random``.
        :param storage: ``"ram"``, or a folder for columns in memory-mapped files.
        :raises ValueError: not such a file, or one of another kind of buffer.
        :raises pickle.UnpicklingError: the file holds more than plain data, and ``allow_pickle`` is False.
        """
        return _hdf5.load(cls, path, allow_pickle=allow_pickle, seed=draw_seed(seed), storage=storage)

    @classmethod
    def from_minari(cls, dataset: Any, size: int | None = None, **options: Any) -> Self:
        """A buffer with all episodes of a Minari dataset, in their order, as full of rows as the dataset has steps.

        ``info`` is the info of each step and ``first_info``, in an episode's first row, that of its reset. Tuples
        become dicts with the keys ``"0"``, ``"1"``, ... An episode without an end counts as cut off by time.

        :param dataset: a ``MinariDataset``, or the id of one that is on this machine.
        :param size: rows at most; default as many as there are. Of more the last ones are kept.
        :param options: what the constructor takes beside ``size``.
        :raises ImportError: Minari is not installed.
        :raises TypeError: the buffer has several rings.
        """
        if hasattr(cls, "_adopt"):
            raise TypeError(f"a dataset goes into a buffer of one ring, not into a {cls.__name__}")
        dataset = _minari.opened(dataset)
        buffer = cls(int(dataset.total_steps) if size is None else size, **options)  # type: ignore[call-arg]
        _minari.fill(buffer, dataset)
        return buffer

    def to_minari(self, dataset_id: str, **metadata: Any) -> Any:
        """Writes all rows as a Minari dataset, the reverse of :meth:`from_minari`.

        A running episode ends as truncated at its newest row. Images are stored exactly, unless ``jpeg_encoding=True``.

        :param dataset_id: its name, such as ``"cartpole/mine-v0"``.
        :param metadata: what ``minari.create_dataset_from_buffers`` takes: ``env``, or ``observation_space`` and
            ``action_space``, and ``algorithm_name``, ``author``, ...
        :return: the ``MinariDataset``.
        :raises ImportError: Minari is not installed.
        :raises ValueError: there are no rows, or an ``obs_next`` that is not the next row's ``obs``.
        """
        return _minari.save(self, dataset_id, metadata)

    @classmethod
    def from_data(cls, obs: Any, act: Any, rew: Any, terminated: Any, truncated: Any, done: Any, obs_next: Any) -> Self:
        """A full buffer of the given columns, as of seven HDF5 data sets.

        :param done: ignored; it follows from ``terminated`` and ``truncated``.
        :raises AssertionError: lengths differ.
        """
        columns = {
            "obs": obs,
            "act": act,
            "rew": rew,
            "terminated": terminated,
            "truncated": truncated,
            "obs_next": obs_next,
        }
        size = len(obs)
        same = all(len(column) == size for column in (*columns.values(), done))
        assert same, "Lengths of all hdf5 datasets need to be equal."
        buffer = cls(size)  # type: ignore[call-arg]
        if size:
            arrays = {key: column[:] for key, column in columns.items()}
            buffer._store.replace(arrays, [size], [0])
        return buffer
