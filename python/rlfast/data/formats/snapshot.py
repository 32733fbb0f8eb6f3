"""Buffers in snapshot files: the engine's snapshot with checksums, and a JSON header with the options of the buffer."""

from __future__ import annotations

import json
import math
import os
import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from rlfast._core import Replay
from rlfast.data._leaves import Column
from rlfast.data.buffer.options.config import Config
from rlfast.data.buffer.options.relabelling import Hindsight
from rlfast.data.buffer.options.samplers import Prioritized, Uniform
from rlfast.data.buffer.options.units import NStep, Sequence, Transition
from rlfast.data.buffer.store.row_range import HasRows
from rlfast.data.plain_data import WRONG_DATA, pack, summary, unpack
from rlfast.data.schema import Schema

PathType = str | PathLike[str]

_FORMAT = 1
_OBJECT = np.dtype(object)
_SAMPLERS = {kind.__name__: kind for kind in (Uniform, Prioritized)}
_UNITS = {kind.__name__: kind for kind in (Transition, NStep, Sequence)}
_FLAGS = ("stack_num", "ignore_obs_next", "save_only_last_obs", "sample_avail")


def save(buffer: HasRows, path: PathType, *, allow_pickle: bool) -> None:
    """Writes a buffer; see :meth:`ReplayBuffer.save`."""
    core = buffer._core
    core.hold(lambda: core.save(os.fspath(path), _extra(buffer, allow_pickle=allow_pickle)))


def flush(buffer: HasRows) -> None:
    """Keeps a buffer in its folder; see :meth:`ReplayBuffer.flush`."""
    core = buffer._core
    core.hold(lambda: core.flush(_extra(buffer, allow_pickle=False, appends=True)))


def _extra(buffer: HasRows, *, allow_pickle: bool, appends: bool = False) -> bytes:
    """Returns what a snapshot has beside the engine's part, and brings the engine up to date."""
    if not buffer._rows.whole:
        raise ValueError("this buffer is part of a manager: save or flush the manager")
    store = buffer._store
    if store.objects and appends:
        raise TypeError(f"{_names(store.objects)}: flush keeps no columns of Python objects: use save(path)")
    store.store_assigned()
    known, relabel = store.known(), store.config.relabel
    data: dict[str, Any] = {"objects": known.objects, "finals": known.finals}
    if allow_pickle:
        payload = pickle.dumps(data | {"compute_reward_fn": relabel and relabel.compute_reward_fn})
    else:
        payload = _packed(data) if known.objects else b""
    head = _head(buffer) | {"plain": not allow_pickle}
    return json.dumps(head).encode() + b"\n" + payload


def _packed(data: dict[str, Any]) -> bytes:
    """Returns columns of plain data without pickles: a line of JSON, one of dtypes and shapes, and the numbers."""
    try:
        text, arrays = pack(data)
    except (TypeError, RecursionError) as error:
        raise TypeError(
            f"{_names(data['objects'])}: these columns hold Python objects that are not plain data, kept only as "
            f"pickles: save, and pass allow_pickle=True ({summary(error)})"
        ) from error
    layout = json.dumps([[array.dtype.str, array.shape] for array in arrays.values()])
    return b"\n".join([text.encode(), layout.encode(), b"".join(array.tobytes() for array in arrays.values())])


def _unpacked(payload: bytes) -> dict[str, Any]:
    text, layout, numbers = payload.split(b"\n", 2)
    arrays, start = {}, 0
    for name, (dtype, shape) in enumerate(json.loads(layout)):
        array = np.frombuffer(numbers, dtype, math.prod(shape), start) if math.prod(shape) else np.empty(0, dtype)
        arrays[str(name)] = array.reshape(shape).copy()
        start += array.nbytes
    result: dict[str, Any] = unpack(text.decode(), arrays)
    return result


def _names(paths: Iterable[tuple[str, ...]]) -> str:
    return ", ".join(".".join(path) for path in paths)


def _head(buffer: HasRows) -> dict[str, Any]:
    config, core, schema = buffer._config, buffer._core, buffer._store.schema
    relabel = config.relabel
    return {
        "format": _FORMAT,
        "class": _name(type(buffer)),
        "children": [_name(type(child)) for child in vars(buffer).get("buffers", ())],
        "flags": {flag: getattr(config, flag) for flag in _FLAGS},
        "sampler": [type(config.sampler).__name__, asdict(config.sampler)],
        "unit": [type(config.unit).__name__, asdict(config.unit)],
        "relabel": relabel and {"horizon": relabel.horizon, "future_k": relabel.future_k},
        "now": {"stack_num": buffer._rows.stack_num, "beta": core.beta, "weight_norm": core.weight_norm},
        "groups": sorted(schema.groups),
        "objects": [[path, column.shape] for path, column in schema.objects.items()],
    }


def open_folder(cls: type[Any], folder: PathType, *, compute_reward_fn: Callable[..., Any] | None) -> tuple[Any, int]:
    """Reads a buffer that was kept in its folder, and how many rows are gone; see :meth:`ReplayBuffer.open`."""
    base = Replay.newest_base(os.fspath(folder))
    if base is None:
        raise ValueError(f"{folder} holds no buffer: nothing was flushed to it")
    lost = 0

    def read(core: Replay, _path: str) -> None:
        nonlocal lost
        lost = core.reopen(os.fspath(folder))

    options: dict[str, Any] = {
        "allow_pickle": False,
        "storage": os.fspath(folder),
        "compute_reward_fn": compute_reward_fn,
    }
    return load(cls, base, read=read, **options), lost


def load(
    cls: type[Any],
    path: PathType,
    *,
    allow_pickle: bool,
    storage: str,
    compute_reward_fn: Callable[..., Any] | None,
    read: Callable[[Replay, str], None] = Replay.open,
) -> Any:
    """Reads a buffer; see :meth:`ReplayBuffer.load`. ``read`` fills the engine."""
    with _naming_file(path):
        capacities, extra = Replay.read_header(os.fspath(path))
    head, payload = _parse(extra, path)
    with _naming_file(path, "what it says of the buffer makes no sense"):
        kind = _find(cls, head["class"], path)
        plain = head.get("plain", False)
        if head["objects"] and not (plain or allow_pickle):
            raise ValueError(f"{path} holds pickled Python objects; pass allow_pickle=True if you trust its source")
    pickled = pickle.loads(payload) if allow_pickle and payload and not plain else {}  # noqa: S301
    with _naming_file(path, "what it says of the buffer makes no sense"):
        pickled = _unpacked(payload) if plain and payload else pickled
        function = compute_reward_fn or pickled.get("compute_reward_fn") or _missing
        config = _config(head, function)
        children = [object.__new__(_find(HasRows, name, path)) for name in head["children"]]
        if len(children) != (len(capacities) if kind._is_manager else 0):
            raise ValueError(f"{path} is damaged: {len(children)} buffers for {len(capacities)} rings")
    if config.relabel is not None and function is _missing:
        raise TypeError(f"{path} holds a relabelling buffer without its reward function: pass compute_reward_fn")
    buffer: Any = object.__new__(kind)
    with _naming_file(path):
        buffer._setup(capacities, config, 0, storage, children)
        read(buffer._core, os.fspath(path))
        _fill(buffer, head, pickled)
    return buffer


@contextmanager
def _naming_file(path: PathType, what: str = "it cannot be read") -> Iterator[None]:
    """Turns errors about the contents of a file into a ValueError that names the file."""
    try:
        yield
    except WRONG_DATA as error:
        named = {os.fspath(path), os.fspath(Path(path).parent)} - {"."}  # which may be a buffer's folder
        if isinstance(error, ValueError) and any(name in str(error) for name in named):
            raise
        raise ValueError(f"{path} is damaged, or no snapshot of a buffer: {what}: {summary(error)}") from error


def _missing(*_: Any) -> Any:
    """Placeholder for a reward function that was neither pickled nor given."""
    raise NotImplementedError


def _parse(extra: bytes, path: PathType) -> tuple[dict[str, Any], bytes]:
    head, _, payload = extra.partition(b"\n")
    try:
        parsed = json.loads(head)
        version = parsed["format"]
    except WRONG_DATA:
        raise ValueError(f"{path} is a snapshot, but not of a replay buffer") from None
    if version != _FORMAT:
        raise ValueError(
            f"{path} has version {version!r:.50} of the buffer format; this rlfast reads version {_FORMAT}"
        )
    return parsed, payload


def _config(head: dict[str, Any], function: Callable[..., Any]) -> Config:
    sampler, unit, relabel = head["sampler"], head["unit"], head["relabel"]
    flags = {flag: head["flags"][flag] for flag in _FLAGS}
    if any(type(flags[flag]) is not bool for flag in _FLAGS[1:]):
        raise TypeError(f"flags {flags}")
    return Config(
        **flags,
        sampler=_SAMPLERS[sampler[0]](**sampler[1]),
        unit=_UNITS[unit[0]](**unit[1]),
        relabel=Hindsight(function, **relabel) if relabel else None,
    )


def _fill(buffer: Any, head: dict[str, Any], pickled: dict[str, Any]) -> None:
    store, core = buffer._store, buffer._core
    objects = {tuple(p): Column(_OBJECT, tuple(shape)) for p, shape in head["objects"]}
    numbers = {p: Column(dtype, tuple(shape)) for p, dtype, shape in core.columns()}
    schema = Schema(numbers, objects, {tuple(p) for p in head["groups"]})
    finals = pickled.get("finals", pickled.get("last", {}))  # `last` in files of earlier versions
    store.adopt(schema, pickled.get("objects", {}), finals)
    now = head["now"]
    buffer.stack_num = now["stack_num"]
    core.beta, core.weight_norm = now["beta"], now["weight_norm"]


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _family(cls: type[Any]) -> Iterator[type[Any]]:
    yield cls
    for child in cls.__subclasses__():
        yield from _family(child)


def _find(cls: type[Any], name: str, path: PathType) -> type[Any]:
    """Returns the class with this name among ``cls`` and its subclasses; a file cannot name any other class."""
    for kind in _family(cls):
        if _name(kind) == name:
            return kind
    raise ValueError(f"{path} holds a {name}, which is not a {cls.__name__} (or its module was not imported)")
