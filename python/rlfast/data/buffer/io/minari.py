"""Conversion between buffers and Minari datasets.

In Minari, an episode of ``T`` steps has ``T + 1`` observations, and usually ``T + 1`` infos, the first of which is that
of the reset. A buffer has ``T`` rows: ``info`` is the info of the step, and ``first_info`` that of the reset, in the
first row of an episode (0 or None in the others). Tuples become dicts with the keys ``"0"``, ``"1"``, ...
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlfast.data.buffer.store.row_range import HasRows
from rlfast.utils import tree
from rlfast.utils.runtime.extras import how_to_install

_AT_ONCE = 64
"""Rows written in one call. The engine reserves room for them as if none of them shared an observation."""


def require_minari() -> Any:
    """Imports Minari.

    :return: the module.
    :raises ImportError: if Minari is not installed.
    """
    try:
        import minari
    except ImportError as error:
        raise ImportError(f"Minari is needed: {how_to_install('minari')}") from error
    return minari


# -- reading -----------------------------------------------------------------------------------------------------------
def load(cls: type[Any], dataset: Any, size: int | None, options: dict[str, Any]) -> Any:
    """Makes a buffer from a dataset; see :meth:`ReplayBuffer.from_minari`."""
    if cls._is_manager:
        raise TypeError(f"a dataset goes into a buffer of one ring, not into a {cls.__name__}")
    if isinstance(dataset, str):
        dataset = require_minari().load_dataset(dataset)
    buffer = cls(int(dataset.total_steps) if size is None else size, **options)
    _fill(buffer, dataset)
    return buffer


def _fill(buffer: Any, dataset: Any) -> None:
    """Appends all episodes of a dataset to a buffer with one ring; an episode without an end counts as truncated."""
    for episode in dataset.iterate_episodes():
        fields = fields_of(episode)
        length = len(episode.rewards)
        for start in range(0, length, _AT_ONCE):
            part = tree.take(fields, slice(start, start + _AT_ONCE))
            buffer._core.add(part, np.zeros(len(part["rew"]), np.int64))
        if length and not (episode.terminations[-1] or episode.truncations[-1]):
            buffer.close_episodes()


def fields_of(episode: Any) -> dict[str, Any]:
    """Returns the rows of an ``EpisodeData``."""
    length = len(episode.rewards)
    obs = _arrays(episode.observations)
    infos = _arrays(episode.infos or {})
    fields: dict[str, Any] = {
        "obs": tree.take(obs, slice(-1)),
        "obs_next": tree.take(obs, slice(1, None)),
        "act": _arrays(episode.actions),
        "rew": np.asarray(episode.rewards),
        "terminated": np.asarray(episode.terminations, np.bool_),
        "truncated": np.asarray(episode.truncations, np.bool_),
    }
    if episode.infos is not None:
        fields["info"] = tree.take(infos, slice(-length, None))
    if infos and all(len(leaf) > length for leaf in tree.leaves(infos)):
        fields["first_info"] = tree.map_leaves(lambda leaf: _first(leaf[0], length), infos)
    return fields


def _first(value: Any, length: int) -> NDArray[Any]:
    column = np.zeros((length, *np.shape(value)), np.asarray(value).dtype)
    if column.dtype == object:
        column[:] = None
    column[0] = value
    return column


def _arrays(nested: Any) -> Any:
    if isinstance(nested, Mapping):
        return {key: _arrays(value) for key, value in nested.items()}
    if isinstance(nested, tuple):
        return {str(place): _arrays(value) for place, value in enumerate(nested)}
    if isinstance(nested, list) and nested and not np.isscalar(nested[0]):
        return np.asarray(nested)
    if isinstance(nested, list) and nested and isinstance(nested[0], str):
        return tree.object_array(nested)
    return np.asarray(nested)


# -- writing -----------------------------------------------------------------------------------------------------------
def save(buffer: HasRows, dataset_id: str, metadata: dict[str, Any]) -> Any:
    """Writes a dataset from a buffer; see :meth:`ReplayBuffer.to_minari`."""
    minari = require_minari()
    rings = [buffer._rows.ring] if buffer._rows.ring is not None else range(len(buffer._core.capacities))
    episodes = [episode for ring in rings for episode in _episodes(buffer, ring)]
    if not episodes:
        raise ValueError("an empty buffer makes no dataset")
    buffers = [minari.data_collector.EpisodeBuffer(id=place, **episode) for place, episode in enumerate(episodes)]
    return minari.create_dataset_from_buffers(dataset_id, buffers, **{"jpeg_encoding": False} | metadata)


def _episodes(buffer: HasRows, ring: int | None) -> list[dict[str, Any]]:
    rows = buffer._store.live(ring)
    if not len(rows):
        return []
    ends = np.flatnonzero(buffer._store.take(rows, ["done"], 1)["done"]) + 1
    parts = [part for part in np.split(rows, ends) if len(part)]
    with_infos = buffer._store.has("info")
    return [episode_of(buffer._store.take(part, stack_num=1), with_infos=with_infos) for part in parts]


def episode_of(fields: dict[str, Any], *, with_infos: bool) -> dict[str, Any]:
    """Returns the arguments of an ``EpisodeBuffer`` for the rows of one episode."""
    obs, obs_next = (tree.storable(fields[key]) for key in ("obs", "obs_next"))
    truncated = fields["truncated"].copy()
    truncated[-1] |= not fields["terminated"][-1]
    return {
        "observations": _as_given(_joined(obs, obs_next, "obs")),
        "actions": _as_given(tree.storable(fields["act"])),
        "rewards": fields["rew"],
        "terminations": fields["terminated"],
        "truncations": truncated,
        "infos": _as_given(_infos(fields)) if with_infos else None,
    }


def _infos(fields: dict[str, Any]) -> Any:
    info = tree.storable(fields.get("info", {}))
    if "first_info" not in fields:
        return info
    first = tree.take(tree.storable(fields["first_info"]), slice(1))
    return tree.map_leaves(lambda one, other: np.concatenate([one, other]), first, info)


def _joined(obs: Any, obs_next: Any, name: str) -> Any:
    """Returns the ``T + 1`` observations of an episode.

    :raises ValueError: if an ``obs_next`` is not the ``obs`` of the next row.
    """
    if isinstance(obs, dict):
        return {key: _joined(value, obs_next[key], f"{name}.{key}") for key, value in obs.items()}
    same = obs[1:] == obs_next[:-1]
    if obs.dtype.kind in "fc":
        same |= np.isnan(obs[1:]) & np.isnan(obs_next[:-1])
    if not np.all(same):
        raise ValueError(
            f"{name}_next is not the next row's {name} within an episode, and Minari has one place for both"
        )
    return np.concatenate([obs, obs_next[-1:]])


def _as_given(nested: Any) -> Any:
    """Returns values as they were read: dicts that were tuples become tuples, and arrays of objects lists."""
    if not isinstance(nested, dict):
        return nested.tolist() if nested.dtype == object else nested
    values = {key: _as_given(value) for key, value in nested.items()}
    if values and list(values) == [str(place) for place in range(len(values))]:
        return tuple(values.values())
    return values
