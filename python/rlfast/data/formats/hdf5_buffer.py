"""Buffers in HDF5 files of Tianshou's layout, which stores the attributes of a Tianshou buffer one by one.

The rows are datasets in the group ``_meta``, those of one ring after the other, and can be read and written a part at a
time.

The buffers of a manager are pickled objects in that layout, each with its own copy of its rows. They are pickled as
records under the names of Tianshou's classes, and unpickled as records, so that no class of Tianshou is needed or run.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from math import inf
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlfast.data.batch.batch import Batch
from rlfast.data.buffer.options.config import Config
from rlfast.data.buffer.options.relabelling import Hindsight
from rlfast.data.buffer.options.samplers import Prioritized, Uniform
from rlfast.data.buffer.options.units import Transition
from rlfast.data.buffer.store import priorities
from rlfast.data.buffer.store.column_batch import ColumnBatch
from rlfast.data.buffer.store.episodes import EpisodeMethods
from rlfast.data.datasets.parts import Part, Source, Writer, cut_off, ranges, rows_at_once
from rlfast.data.formats.hdf5 import (
    check_dataset,
    check_once,
    create_hdf5,
    from_hdf5,
    member,
    open_hdf5,
    require_h5py,
    to_hdf5,
)
from rlfast.data.plain_data import WRONG_DATA, summary
from rlfast.utils import tree
from rlfast.utils.arguments.checks import count_of

if TYPE_CHECKING:
    import h5py

PathType = str | PathLike[str]


class _Record:
    """The attributes of an object of Tianshou."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


class _Plain(_Record):
    pass


class _Prioritized(_Record):
    pass


class _Hindsight(_Record):
    pass


class _Tree(_Record):
    pass


class _Fields(_Record):
    """The attributes of a ``Batch``."""


_NAMES: dict[type, tuple[str, str]] = {
    _Plain: ("tianshou.data.buffer.base", "ReplayBuffer"),
    _Prioritized: ("tianshou.data.buffer.prio", "PrioritizedReplayBuffer"),
    _Hindsight: ("tianshou.data.buffer.her", "HERReplayBuffer"),
    _Tree: ("tianshou.data.utils.segtree", "SegmentTree"),
    _Fields: ("tianshou.data.batch", "Batch"),
}
_CLASSES = {name: kind for kind, name in _NAMES.items()}
_LAST = "_last_obs_next"
_FLAGS = ("rew", "terminated", "truncated")
_EPSILON = float(np.finfo(np.float32).eps)


# -- writing -----------------------------------------------------------------------------------------------------------
def save(buffer: EpisodeMethods, path: PathType, compression: str | None) -> None:
    """Writes a buffer; see :meth:`ReplayBuffer.save_hdf5`."""
    if not isinstance(buffer._config.unit, Transition):
        raise ValueError(f"Tianshou's layout has no place for unit={buffer._config.unit}: use save(path)")
    temporary = Path(f"{os.fspath(path)}.part")
    try:
        with create_hdf5(temporary) as file:
            buffer._core.hold(lambda: to_hdf5(_attributes(buffer), file, compression, names=_NAMES))
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _attributes(buffer: EpisodeMethods) -> dict[str, Any]:
    meta = Batch(ColumnBatch(buffer).__dict__)
    state = _common_of(buffer) | {"_meta": meta} | _last(buffer)
    children = vars(buffer).get("buffers")
    if children is None:
        return state | _ring_attributes(buffer) | _kind(buffer)[1]
    records = np.empty(len(children), object)
    for place, child in enumerate(children):
        kind, extras = _kind(child)
        extras.pop("weight", None)  # the buffers of Tianshou's managers have no tree
        records[place] = kind(
            **_common_of(child), _meta=_nested(ColumnBatch(child).__dict__), **_ring_attributes(child), **extras
        )
    state |= {"buffers": records, "buffer_num": len(records), "last_index": buffer.last_index}
    edges = np.append(buffer._core.offsets, buffer._core.total)
    state |= {"_offset": edges[:-1], "_extend_offset": edges, "_lengths": buffer._core.sizes()}
    if "cached_buffers" in vars(buffer):
        state |= {"main_buffer": records[0], "cached_buffers": records[1:], "cached_buffer_num": len(records) - 1}
    return state | (_kind(buffer)[1] if buffer._core.prioritized else {})


def _last(buffer: EpisodeMethods) -> dict[str, Any]:
    """Returns, with ``ignore_obs_next``, the ``obs_next`` of ends of episodes, in a field that Tianshou ignores."""
    store, rows = buffer._store, np.array(buffer._store.live())
    if not buffer._config.ignore_obs_next or not len(rows):
        return {}
    kept = store.core.has_obs_next(rows)
    for values in store.known().finals.values():
        kept = kept | [final is not None for final in values[rows]]
    ends = rows[kept]
    return {_LAST: Batch(rows=ends, **store.take(ends, ["obs_next"], 1))} if len(ends) else {}


def _common(config: Config, stack_num: int, maxsize: int, beta: float = 0.0) -> dict[str, Any]:
    """Returns the attributes that buffers of all classes have."""
    options: dict[str, Any] = {"stack_num": stack_num, "ignore_obs_next": config.ignore_obs_next}
    options |= {"save_only_last_obs": config.save_only_last_obs, "sample_avail": config.sample_avail}
    if isinstance(config.sampler, Prioritized):
        options |= {"alpha": config.sampler.alpha, "beta": beta}
    return {
        "options": options,
        "maxsize": maxsize,
        "stack_num": stack_num,
        "_indices": np.arange(maxsize),
        "_save_obs_next": not config.ignore_obs_next,
        "_save_only_last_obs": config.save_only_last_obs,
        "_sample_avail": config.sample_avail,
    }


def _common_of(buffer: EpisodeMethods) -> dict[str, Any]:
    return _common(buffer._config, buffer._rows.stack_num, buffer.maxsize, buffer._core.beta)


def _ring_attributes(buffer: EpisodeMethods) -> dict[str, Any]:
    """Returns the attributes of a buffer of one ring."""
    core, rows = buffer._core, buffer._rows
    ring = rows.ring or 0
    episode_return, length, start = core.running(ring)
    cursor = int(core.cursors()[ring])
    state = {"last_index": buffer.last_index, "_index": cursor, "_size": len(buffer)}
    return state | {"_ep_rew": episode_return, "_ep_len": length, "_ep_idx": start - rows.base}


def _kind(buffer: EpisodeMethods) -> tuple[type[_Record], dict[str, Any]]:
    """Returns the record for the buffer's class, and the attributes of that class besides the common ones."""
    relabel = buffer._config.relabel
    extras: dict[str, Any]
    if relabel is not None:
        extras = {"horizon": relabel.horizon, "future_p": 1 - 1 / relabel.future_k}
        extras |= {"compute_reward_fn": relabel.compute_reward_fn, "_altered_indices": np.array([])}
        return _Hindsight, extras | {"_original_meta": _Fields()}
    core, sampler = buffer._core, buffer._config.sampler
    if not isinstance(sampler, Prioritized):
        return _Plain, {}
    leaves = np.asarray(core.tree[np.arange(core.total)])
    extras = {"_alpha": sampler.alpha, "_beta": core.beta, "_weight_norm": core.weight_norm, "weight": _tree(leaves)}
    extras |= {"_max_prio": core.max_priority, "_min_prio": min(priorities.least(buffer._rows), 1.0)}
    return _Prioritized, extras | {"_PrioritizedReplayBuffer__eps": _EPSILON}


def _tree(leaves: NDArray[np.float64]) -> _Tree:
    """Returns Tianshou's binary heap: leaves in its second half, and each parent the sum of its two children."""
    bound = 1 << max(len(leaves) - 1, 0).bit_length()
    heap = np.zeros(2 * bound)
    heap[bound : bound + len(leaves)] = leaves
    while bound > 1:
        heap[bound // 2 : bound] = heap[bound : 2 * bound].reshape(-1, 2).sum(1)
        bound //= 2
    return _Tree(_size=len(leaves), _bound=len(heap) // 2, _value=heap)


def _nested(fields: dict[str, Any]) -> _Fields:
    return _Fields(**{k: _nested(v.__dict__) if isinstance(v, Batch) else v for k, v in fields.items()})


# -- reading -----------------------------------------------------------------------------------------------------------
def is_of_several_rings(path: PathType) -> bool:
    """Returns whether a file holds a manager."""
    with open_hdf5(path) as file:
        return "buffers" in {*file}


def load(cls: type[Any], path: PathType, *, allow_pickle: bool, seed: int, storage: str) -> Any:
    """Reads a buffer; see :meth:`ReplayBuffer.load_hdf5`."""
    with open_hdf5(path) as file, nullcontext() if allow_pickle else _naming_file(path):
        state = from_hdf5(file, allow_pickle=allow_pickle, classes=_CLASSES)
    with _naming_file(path):
        rings = [vars(record) for record in state["buffers"]] if "buffers" in state else [state]
        config = _config(state, rings[0])
        meta = state["_meta"]
        capacities = [count_of("maxsize", ring["maxsize"]) for ring in rings]
        fits = cls._is_manager == ("buffers" in state) and isinstance(config.sampler, cls._sampler_kind)
    if not fits:
        raise ValueError(f"{path} does not hold a {cls.__name__}: it has {len(rings)} rings and {config}")
    buffer: Any = object.__new__(cls)
    children = [object.__new__(cls._child_class(config)) for _ in rings] if "buffers" in state else []
    with _naming_file(path):
        buffer._setup(capacities, config, seed, storage, children)
        if not meta.is_empty():
            _fill(buffer, meta, rings, state)
    return buffer


@contextmanager
def _naming_file(path: PathType) -> Iterator[None]:
    """Turns errors about the contents of a file into a ValueError that names the file."""
    try:
        yield
    except (*WRONG_DATA, RuntimeError) as error:  # HDF5 raises a RuntimeError for objects that it cannot open
        what = "does not hold a replay buffer in Tianshou's layout, or is damaged"
        raise ValueError(f"{path} {what}: {summary(error)}") from error


def _config(state: dict[str, Any], ring: dict[str, Any]) -> Config:
    sampler: Uniform | Prioritized = Uniform()
    if "_alpha" in state:
        sampler = Prioritized(float(state["_alpha"]), float(state["_beta"]), bool(state["_weight_norm"]))
    relabel = None
    if "future_p" in ring:
        untouched = 1 - float(ring["future_p"])
        future_k = 1 / untouched if untouched else inf  # infinity relabels every row
        relabel = Hindsight(ring["compute_reward_fn"], int(ring["horizon"]), future_k)
    return Config(
        int(state["stack_num"]),
        not state["_save_obs_next"],
        bool(state["_save_only_last_obs"]),
        bool(state["_sample_avail"]),
        sampler,
        relabel=relabel,
    )


def _fill(buffer: EpisodeMethods, meta: Batch, rings: list[dict[str, Any]], state: dict[str, Any]) -> None:
    core = buffer._core
    sizes, cursors = ([int(ring[key]) for ring in rings] for key in ("_size", "_index"))
    columns, known = dict(meta.items()), np.zeros(core.total, np.bool_)
    if _LAST in state:
        columns["obs_next"], ends = deepcopy(meta.obs), np.asarray(state[_LAST].rows)
        columns["obs_next"][ends] = state[_LAST].obs_next
        known[ends] = True
    buffer._store.replace(columns, sizes, cursors, known)
    for ring, attributes in enumerate(rings):
        start = core.offsets[ring] + int(attributes["_ep_idx"])
        core.set_running(ring, np.asarray(attributes["_ep_rew"], np.float64), int(attributes["_ep_len"]), start)
    if core.prioritized:
        tree = vars(state["weight"])
        rows = buffer._store.live()
        core.tree[rows] = np.asarray(tree["_value"], np.float64)[rows + int(tree["_bound"])]
        core.max_priority = float(state["_max_prio"])


# -- a part at a time --------------------------------------------------------------------------------------------------
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


class Hdf5Source(Source):
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
            with _naming_file(path):
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

    def _find(self, group: h5py.Group, depth: int) -> dict[str, Any]:
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
        if "obs_next" in self._columns or (last := member(self._file, _LAST)) is None:
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

    def _read(self, names: Iterable[str], *, following: bool) -> Iterator[Part]:
        columns = {name: self._columns[name] for name in names if name in self._columns}
        for ring in self._rings:
            read = 0
            for slots in ring.slots():
                for inner in ranges(slots.stop - slots.start, rows_at_once(columns)):
                    place = slice(slots.start + inner.start, slots.start + inner.stop)
                    with _naming_file(self._path):
                        part = _taken(columns, place)
                        read += len(part["rew"])
                        if read == ring.size:
                            cut_off(part)
                        if following and "obs_next" not in part:
                            part["obs_next"] = self._following(part, place, ring)
                    yield part

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


def _with(column: NDArray[Any], row: int, value: NDArray[Any]) -> NDArray[Any]:
    column[row] = value[0]
    return column


def _taken(column: Any, place: slice) -> Any:
    if isinstance(column, dict):
        return {key: _taken(inner, place) for key, inner in column.items()}
    return column[place]


class Hdf5Writer(Writer):
    """A file that holds a buffer of one ring.

    :param path: the file.
    :param length: number of rows that will come.
    :param stack_num: see :class:`Source`.
    """

    def __init__(self, path: Path, length: int, stack_num: int = 1) -> None:
        super().__init__(path, length, stack_num)
        ring = {"last_index": np.array([length - 1]), "_index": 0, "_size": length}
        episode = {"_ep_rew": 0.0, "_ep_len": 0, "_ep_idx": 0}
        self._file = create_hdf5(path)
        to_hdf5(_common(Config(stack_num), stack_num, length) | ring | episode | {"_meta": Batch()}, self._file)

    def write(self, part: Part) -> None:
        """Appends rows.

        :param part: the rows.
        :raises ValueError: if a column has Python objects.
        """
        self._write(self._file["_meta"], part | {"done": part["terminated"] | part["truncated"]})
        self._rows += len(part["rew"])

    def _write(self, group: h5py.Group, columns: dict[str, Any]) -> None:
        for name, column in columns.items():
            if isinstance(column, dict):
                self._write(group.require_group(name), column)
                continue
            if column.dtype.hasobject or column.dtype.kind not in "biufcSV":
                raise ValueError(f"{group.name}/{name} holds Python objects or text, which snapshots alone can hold")
            if self._append(group, name, column):
                group[name].attrs["__data_type__"] = "ndarray"
