"""Buffers in HDF5 files of Tianshou's layout, which stores the attributes of a Tianshou buffer one by one.

The buffers of a manager are pickled objects in that layout, each with its own copy of its rows. They are pickled as
records under the names of Tianshou's classes, and unpickled as records, so that no class of Tianshou is needed or run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from math import inf
from os import PathLike
from pathlib import Path
from typing import Any

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
from rlfast.data.hdf5 import create_hdf5, from_hdf5, open_hdf5, to_hdf5
from rlfast.data.plain_data import WRONG_DATA, summary
from rlfast.utils.arguments.checks import count_of

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
LAST = "_last_obs_next"
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
    state = common_attributes(buffer) | {"_meta": meta} | _last(buffer)
    children = vars(buffer).get("buffers")
    if children is None:
        return state | ring_attributes(buffer) | _kind(buffer)[1]
    records = np.empty(len(children), object)
    for place, child in enumerate(children):
        kind, extras = _kind(child)
        extras.pop("weight", None)  # the buffers of Tianshou's managers have no tree
        records[place] = kind(
            **common_attributes(child), _meta=_nested(ColumnBatch(child).__dict__), **ring_attributes(child), **extras
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
    return {LAST: Batch(rows=ends, **store.take(ends, ["obs_next"], 1))} if len(ends) else {}


def common_attributes(buffer: EpisodeMethods) -> dict[str, Any]:
    """Returns the attributes that buffers of all kinds have."""
    config = buffer._config
    options: dict[str, Any] = {"stack_num": buffer._rows.stack_num, "ignore_obs_next": config.ignore_obs_next}
    options |= {"save_only_last_obs": config.save_only_last_obs, "sample_avail": config.sample_avail}
    if isinstance(config.sampler, Prioritized):
        options |= {"alpha": config.sampler.alpha, "beta": buffer._core.beta}
    return {
        "options": options,
        "maxsize": buffer.maxsize,
        "stack_num": buffer._rows.stack_num,
        "_indices": np.arange(buffer.maxsize),
        "_save_obs_next": not config.ignore_obs_next,
        "_save_only_last_obs": config.save_only_last_obs,
        "_sample_avail": config.sample_avail,
    }


def ring_attributes(buffer: EpisodeMethods) -> dict[str, Any]:
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
    with open_hdf5(path) as file, nullcontext() if allow_pickle else naming_file(path):
        state = from_hdf5(file, allow_pickle=allow_pickle, classes=_CLASSES)
    with naming_file(path):
        rings = [vars(record) for record in state["buffers"]] if "buffers" in state else [state]
        config = _config(state, rings[0])
        meta = state["_meta"]
        capacities = [count_of("maxsize", ring["maxsize"]) for ring in rings]
        fits = cls._is_manager == ("buffers" in state) and isinstance(config.sampler, cls._sampler_kind)
    if not fits:
        raise ValueError(f"{path} does not hold a {cls.__name__}: it has {len(rings)} rings and {config}")
    buffer: Any = object.__new__(cls)
    children = [object.__new__(cls._child_class(config)) for _ in rings] if "buffers" in state else []
    with naming_file(path):
        buffer._setup(capacities, config, seed, storage, children)
        if not meta.is_empty():
            _fill(buffer, meta, rings, state)
    return buffer


@contextmanager
def naming_file(path: PathType) -> Iterator[None]:
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
    if LAST in state:
        columns["obs_next"], ends = deepcopy(meta.obs), np.asarray(state[LAST].rows)
        columns["obs_next"][ends] = state[LAST].obs_next
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


def from_columns(cls: type[Any], columns: dict[str, Any], done: Any) -> Any:
    """Makes a buffer from columns; see :meth:`ReplayBuffer.from_data`."""
    size = len(columns["obs"])
    same = all(len(column) == size for column in (*columns.values(), done))
    assert same, "Lengths of all hdf5 datasets need to be equal."
    buffer = cls(size)
    if size:
        arrays = {key: column[:] for key, column in columns.items()}
        buffer._store.replace(arrays, [size], [0])
    return buffer
