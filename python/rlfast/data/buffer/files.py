"""The files that a buffer can be written to and read from."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from os import PathLike
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlfast.data.buffer.store.episodes import EpisodeMethods
from rlfast.data.datasets.parts import Source
from rlfast.utils.runtime.seeding import draw_seed

PathType: TypeAlias = str | PathLike[str]


class FileMethods(EpisodeMethods):
    """The methods of a buffer that write and read files. Each calls the module of its format."""

    _is_manager: ClassVar[bool] = False

    def save(self, path: PathType, *, allow_pickle: bool = False) -> None:
        """Writes a snapshot of rows, priorities, running episodes and random streams to a file; see :meth:`load`.

        :param path: the file. An existing file is replaced once the new one is complete.
        :param allow_pickle: whether object columns and functions are pickled into the file. Object columns of plain
            data (strings, numbers, None, arrays, and lists, tuples and dicts of them) need no pickles.
        :raises TypeError: if other objects are in columns, and ``allow_pickle`` is False.
        :raises ValueError: if the buffer is part of a manager.
        """
        from rlfast.data.formats import snapshot

        snapshot.save(self, path, allow_pickle=allow_pickle)

    @classmethod
    def load(
        cls,
        path: PathType,
        *,
        allow_pickle: bool = False,
        storage: str = "ram",
        compute_reward_fn: Callable[..., Any] | None = None,
    ) -> Self:
        """Returns the buffer from a file of :meth:`save`, with the same rows, priorities and random streams.

        The ``__init__`` of a subclass is not called.

        :param path: the file.
        :param allow_pickle: whether pickled objects are loaded, which is safe only for files you trust.
        :param storage: where rows are: see :class:`ReplayBuffer`.
        :param compute_reward_fn: the reward function of a buffer with hindsight, unless it was pickled.
        :return: the buffer.
        :raises ValueError: if the file is not a complete snapshot of such a buffer.
        :raises TypeError: if the reward function is missing.
        """
        from rlfast.data.formats import snapshot

        buffer: Self = snapshot.load(
            cls, path, allow_pickle=allow_pickle, storage=storage, compute_reward_fn=compute_reward_fn
        )
        return buffer

    def flush(self) -> None:
        """Keeps all rows, priorities and running episodes in the folder of ``storage``, for :meth:`open`.

        The first call writes a snapshot, and takes the folder for this buffer alone. Later calls append what was added
        since, until a new snapshot is shorter. Rows that were changed in place since an earlier call, through
        ``buffer.rew`` and the like, are in the next snapshot only. What an earlier call kept stays until this one is
        complete, whatever happens to the process or the machine.

        :raises ValueError: if rows are in memory, the folder holds another buffer, or the buffer is part of a manager.
        :raises TypeError: if there are object columns.
        :raises OSError: if the disk is full (what an earlier call kept is still there), or another process uses the
            folder.
        """
        from rlfast.data.formats import snapshot

        snapshot.flush(self)

    @classmethod
    def open(cls, folder: PathType, *, compute_reward_fn: Callable[..., Any] | None = None) -> Self:
        """Returns the buffer that :meth:`flush` kept in a folder, and goes on with it.

        It has every row that was added before the last flush, and not those that were added later: a warning says how
        many these were.

        :param folder: the folder, which was ``storage`` of the buffer.
        :param compute_reward_fn: the reward function of a buffer with hindsight.
        :return: the buffer.
        :raises ValueError: if the folder holds no such buffer, one of another version, or a damaged one.
        :raises OSError: if another process, or another buffer of this one, uses the folder.
        :raises TypeError: if the reward function is missing.
        """
        from rlfast.data.formats import snapshot

        buffer: Self
        buffer, lost = snapshot.open_folder(cls, folder, compute_reward_fn=compute_reward_fn)
        if lost:
            warnings.warn(f"{lost} rows were added to {folder} after its last flush, and are gone", stacklevel=2)
        return buffer

    def save_hdf5(self, path: PathType, compression: str | None = None) -> None:
        """Writes the buffer to an HDF5 file that Tianshou 1.0 can load.

        :param path: the file. An existing file is replaced once the new one is complete.
        :param compression: compression of ``h5py``: ``"gzip"``, ``"lzf"`` or None.
        :raises ValueError: if the buffer has a unit, which that layout cannot express.
        """
        from rlfast.data.formats import hdf5_buffer

        hdf5_buffer.save(self, path, compression)

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
        """Returns the buffer from an HDF5 file that :meth:`save_hdf5` or Tianshou 1.0 wrote.

        :param path: the file.
        :param device: ignored, as rows are NumPy arrays.
        :param allow_pickle: whether any class or function is unpickled, such as the reward function of a hindsight
            buffer, which is safe only for files you trust.
        :param seed: seed of the random streams, which the layout does not store; None draws one from ``np.random``.
        :param storage: where rows are: see :class:`ReplayBuffer`.
        :return: the buffer.
        :raises ValueError: if the file has another layout, or another kind of buffer.
        :raises pickle.UnpicklingError: if the file has more than plain data, and ``allow_pickle`` is False.
        """
        from rlfast.data.formats import hdf5_buffer

        buffer: Self = hdf5_buffer.load(cls, path, allow_pickle=allow_pickle, seed=draw_seed(seed), storage=storage)
        return buffer

    @classmethod
    def from_minari(cls, dataset: object, size: int | None = None, **options: Any) -> Self:
        """Returns a buffer with all episodes of a Minari dataset, in their order.

        ``info`` is the info of each step, and ``first_info``, in an episode's first row, that of its reset. Tuples
        become dicts with the keys ``"0"``, ``"1"``, ... An episode without an end counts as truncated.

        :param dataset: a ``MinariDataset``, or the id of one on this machine.
        :param size: the largest number of rows; default the number of steps of the dataset. If it has more steps, the
            last ones are kept.
        :param options: other arguments of the constructor.
        :return: the buffer.
        :raises ImportError: if Minari is not installed.
        :raises TypeError: if the buffer has several rings.
        """
        from rlfast.data.formats import minari

        if isinstance(dataset, str):
            dataset = minari.require_minari().load_dataset(dataset)
        source = minari.MinariSource(dataset)
        return cls._filled(source, source.length if size is None else size, **options)

    @classmethod
    def from_d4rl(cls, path: PathType) -> Self:
        """Returns a buffer with the rows of an HDF5 file of D4RL.

        ``timeouts`` become truncations. Without ``next_observations``, the last row of an episode that was cut off has
        no known successor; it is left out, and the row before it counts as truncated.

        :param path: the file.
        :return: the buffer.
        :raises ImportError: if h5py is not installed.
        :raises OSError: if it is no HDF5 file.
        :raises ValueError: if datasets are missing, or their lengths differ.
        :raises TypeError: if the buffer has several rings.
        """
        from rlfast.data.formats import d4rl

        with d4rl.D4rlSource(path) as source:
            return cls._filled(source, source.length)

    @classmethod
    def _filled(cls, source: Source, size: int, **options: Any) -> Self:
        if cls._is_manager:
            raise TypeError(f"a dataset goes into a buffer of one ring, not into a {cls.__name__}")
        make: Callable[..., Self] = cls
        buffer = make(size, **options)
        for part in source.parts():
            buffer._core.add(part, np.zeros(len(part["rew"]), np.int64))
        return buffer

    def to_minari(self, dataset_id: str, **metadata: Any) -> Any:
        """Writes all rows to a Minari dataset, the inverse of :meth:`from_minari`.

        A running episode ends as truncated at its newest row. Images are stored exactly, unless ``jpeg_encoding=True``.

        :param dataset_id: name of the dataset, such as ``"cartpole/mine-v0"``.
        :param metadata: arguments of ``minari.create_dataset_from_buffers``: ``env``, or ``observation_space`` and
            ``action_space``, and ``algorithm_name``, ``author``, ...
        :return: the ``MinariDataset``.
        :raises ImportError: if Minari is not installed.
        :raises ValueError: if there are no rows, or an ``obs_next`` within an episode is not the next row's ``obs``.
        """
        from rlfast.data.formats import minari

        return minari.save(self, dataset_id, metadata)

    @classmethod
    def from_data(
        cls,
        obs: NDArray[Any],
        act: NDArray[Any],
        rew: NDArray[Any],
        terminated: NDArray[Any],
        truncated: NDArray[Any],
        done: NDArray[Any],
        obs_next: NDArray[Any],
    ) -> Self:
        """Returns a full buffer of the given columns, such as seven HDF5 datasets.

        :param obs: observations, one for each row, as in the other columns.
        :param act: actions.
        :param rew: rewards.
        :param terminated: whether the episode reached a terminal state.
        :param truncated: whether the episode was cut.
        :param done: ignored, as it follows from ``terminated`` and ``truncated``.
        :param obs_next: next observations.
        :return: a buffer of that size, all of whose rows are live.
        :raises AssertionError: if the lengths of the columns differ.
        """
        columns = {"obs": obs, "act": act, "rew": rew, "terminated": terminated, "truncated": truncated}
        columns["obs_next"] = obs_next
        size = len(obs)
        same = all(len(column) == size for column in (*columns.values(), done))
        assert same, "Lengths of all hdf5 datasets need to be equal."
        make: Callable[[int], Self] = cls
        buffer = make(size)
        if size:
            buffer._store.replace({key: column[:] for key, column in columns.items()}, [size], [0])
        return buffer
