"""HDF5 files of buffers in Tianshou's layout, read and written a part at a time.

The rows are datasets in the group ``_meta``, those of one ring after the other. The buffers of a manager are also there
as pickles, which nothing here reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rlfast.data.batch.batch import Batch
from rlfast.data.buffer.base import ReplayBuffer
from rlfast.data.buffer.io.hdf5 import LAST, common_attributes, naming_file, ring_attributes
from rlfast.data.datasets.parts import Part, Source, Writer, cut_off, ranges, rows_at_once
from rlfast.data.hdf5 import check_dataset, check_once, create_hdf5, from_hdf5, member, open_hdf5, require_h5py, to_hdf5
from rlfast.utils import tree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

_FLAGS = ("rew", "terminated", "truncated")


class _Ring(NamedTuple):
    offset: int
    capacity: int
    size: int
    cursor: int

    def slots(self) -> Iterator[slice]:
        """Returns the slots with rows, oldest first."""
        start = (self.cursor - self.size) % max(self.capacity, 1)
        until = min(start + self.size, self.capacity)
        yield slice(self.offset + start, self.offset + until)
        yield slice(self.offset, self.offset + self.size - (until - start))


class TianshouSource(Source):
    """The rows of a file.

    :param path: the file.
    :raises OSError: if it is no HDF5 file.
    :raises ValueError: if it is damaged, or has another layout.
    """

    def __init__(self, path: Path) -> None:
        self.holds_pickles = False
        """Whether a column of the file is a pickle, which only :meth:`ReplayBuffer.load_hdf5` reads."""
        self._path = path
        self._file = open_hdf5(path)
        self._seen: set[tuple[int, int]] = set()
        try:
            with naming_file(path):
                self._rings = self._find_rings()
                meta = member(self._file, "_meta")
                self._columns = {} if meta is None else self._find(meta, 0)
                length = sum(ring.size for ring in self._rings)
                self._check(length)
                stack_num = int(self._file.attrs["stack_num"])
                self._last = self._last_observations()
        except BaseException:
            self._file.close()
            raise
        super().__init__(length, stack_num=stack_num)

    def _find_rings(self) -> list[_Ring]:
        """Returns the rings, each with its number of rows and the slot of the next one."""
        attributes = self._file.attrs
        if "buffer_num" not in attributes:
            rings = [_Ring(0, int(attributes["maxsize"]), int(attributes["_size"]), int(attributes["_index"]))]
        else:
            names = ("_extend_offset", "_lengths", "last_index")
            found = [member(self._file, name) for name in names]
            for one in found:
                check_dataset(one)
            edges, sizes, last = (one[:].astype(np.int64) for one in found)
            cursors = last - edges[:-1] + 1
            rings = [_Ring(*map(int, one)) for one in zip(edges[:-1], np.diff(edges), sizes, cursors, strict=True)]
        if any(not 0 <= ring.size <= ring.capacity or not 0 <= ring.cursor <= ring.capacity for ring in rings):
            raise ValueError(f"its rings make no sense: {rings}")
        return rings

    def _find(self, group: Any, depth: int) -> dict[str, Any]:
        """Returns the datasets of a group, in nested dicts; empty groups are left out."""
        h5py = require_h5py()
        found: dict[str, Any] = {}
        if not isinstance(group, h5py.Group):
            raise ValueError(f"{group.name} is no group")
        check_once(group, self._seen, depth)
        for key in group:
            value = member(group, key)
            if isinstance(value, h5py.Group):
                if inner := self._find(value, depth + 1):
                    found[key] = inner
                continue
            check_dataset(value)
            if value.attrs.get("__data_type__") not in ("ndarray", "Tensor"):
                self.holds_pickles = True
            else:
                found[key] = value
        return found

    def _check(self, length: int) -> None:
        if length and (missing := [name for name in ("obs", "act", *_FLAGS) if name not in self._columns]):
            raise ValueError(f"it has no {', '.join(missing)}")
        total = sum(ring.capacity for ring in self._rings)
        for column in tree.leaves(self._columns):
            if not column.shape or len(column) != total:
                raise ValueError(f"{column.name} has {column.shape}, not {total} rows")

    def _last_observations(self) -> dict[int, Any]:
        """Returns the ``obs_next`` of ends of episodes, which files without that column may have."""
        if "obs_next" in self._columns or (last := member(self._file, LAST)) is None:
            return {}
        kept = from_hdf5(last)
        obs_next = tree.storable(kept.obs_next)
        return {int(row): tree.take(obs_next, slice(k, k + 1)) for k, row in enumerate(kept.rows)}

    def parts(self) -> Iterator[Part]:
        """Returns all rows, in order."""
        return self._read([name for name in self._columns if name != "done"], following=True)

    def flags(self) -> Iterator[Part]:
        """Returns ``rew``, ``terminated`` and ``truncated`` of all rows, in order."""
        return self._read(_FLAGS, following=False)

    def _read(self, names: Any, *, following: bool) -> Iterator[Part]:
        columns = {name: self._columns[name] for name in names if name in self._columns}
        for ring in self._rings:
            read = 0
            for slots in ring.slots():
                for inner in ranges(slots.stop - slots.start, self._step(columns)):
                    place = slice(slots.start + inner.start, slots.start + inner.stop)
                    with naming_file(self._path):
                        part = {name: _taken(column, place) for name, column in columns.items()}
                        read += len(part["rew"])
                        if read == ring.size:
                            cut_off(part)
                        if following and "obs_next" not in part:
                            part["obs_next"] = self._following(part, place, ring)
                    yield part

    @staticmethod
    def _step(columns: dict[str, Any]) -> int:
        return rows_at_once({name: np.empty((1, *c.shape[1:]), c.dtype) for name, c in _flat(columns)})

    def _following(self, part: Part, place: slice, ring: _Ring) -> Any:
        """Returns the next rows' observations; at ends of episodes those that were kept, or the rows' own."""
        after = ring.offset + (place.stop - ring.offset) % ring.capacity
        obs_next = tree.map_leaves(
            lambda obs, first: np.concatenate([obs[1:], first]),
            part["obs"],
            _taken(self._columns["obs"], slice(after, after + 1)),
        )
        done = part["terminated"] | part["truncated"]
        for row in np.flatnonzero(done).tolist():
            own = self._last.get(place.start + row, tree.take(part["obs"], slice(row, row + 1)))
            obs_next = tree.map_leaves(lambda to, value, at=row: _with(to, at, value), obs_next, own)
        return obs_next

    def close(self) -> None:
        """Closes the files."""
        self._file.close()


def _with(column: NDArray[Any], row: int, value: NDArray[Any]) -> NDArray[Any]:
    column[row] = value[0]
    return column


def _taken(column: Any, place: slice) -> Any:
    if isinstance(column, dict):
        return {key: _taken(inner, place) for key, inner in column.items()}
    return column[place]


def _flat(columns: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, column in columns.items():
        if isinstance(column, dict):
            yield from _flat(column, f"{above}{key}/")
        else:
            yield above + key, column


class TianshouWriter(Writer):
    """A file that holds a buffer of one ring.

    :param path: the file.
    :param length: number of rows that will come.
    :param stack_num: see :class:`Source`.
    """

    def __init__(self, path: Path, length: int, stack_num: int = 1) -> None:
        super().__init__(path, length, stack_num)
        self._rows = 0
        buffer = ReplayBuffer(length, stack_num, seed=0)
        state = common_attributes(buffer) | ring_attributes(buffer)
        state |= {"last_index": np.array([length - 1]), "_size": length}
        self._file = create_hdf5(path)
        to_hdf5(state | {"_meta": Batch()}, self._file)

    def write(self, part: Part) -> None:
        """Appends rows.

        :param part: the rows.
        :raises ValueError: if a column has Python objects.
        """
        self._write(self._file["_meta"], part | {"done": part["terminated"] | part["truncated"]})
        self._rows += len(part["rew"])

    def _write(self, group: Any, columns: dict[str, Any]) -> None:
        for name, column in columns.items():
            if isinstance(column, dict):
                self._write(group.require_group(name), column)
                continue
            if column.dtype.hasobject or column.dtype.kind not in "biufcSV":
                raise ValueError(f"{group.name}/{name} holds Python objects or text, which snapshots alone can hold")
            if name not in group:
                group.create_dataset(name, (self.length, *column.shape[1:]), column.dtype)
                group[name].attrs["__data_type__"] = "ndarray"
            group[name][self._rows : self._rows + len(column)] = column

    def finish(self) -> None:
        """Completes the dataset, and closes its files."""
        self._file.close()

    def abandon(self) -> None:
        """Closes the files of a dataset that will not be completed."""
        self._file.close()
