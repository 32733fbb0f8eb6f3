"""Datasets of Minari.

In Minari, an episode of ``T`` steps has ``T + 1`` observations, and usually ``T + 1`` infos, the first of which is that
of the reset. A buffer has ``T`` rows: ``info`` is the info of the step, and ``first_info`` that of the reset, in the
first row of an episode (0 or None in the others). Tuples become dicts with the keys ``"0"``, ``"1"``, ...
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlfast.data.buffer.store.row_range import HasRows
from rlfast.data.datasets.parts import Part, Source, Writer, cut_off, ranges, rows_at_once
from rlfast.utils import tree
from rlfast.utils.runtime.extras import how_to_install

if TYPE_CHECKING:
    import gymnasium as gym


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
class MinariSource(Source):
    """The rows of a dataset, episode by episode; an episode without an end counts as truncated.

    :param dataset: a ``MinariDataset``.
    """

    def __init__(self, dataset: Any) -> None:
        space = getattr(dataset, "action_space", None)
        super().__init__(int(dataset.total_steps), in_environment_form=True, action_space=space)
        self.dataset = dataset

    def parts(self) -> Iterator[Part]:
        """Returns all rows, in order."""
        for episode in self.dataset.iterate_episodes():
            fields = _fields_of(episode)
            length = len(fields["rew"])
            if not length:
                continue
            cut_off(fields)
            for place in ranges(length, rows_at_once(fields)):
                yield tree.take(fields, place)


def _fields_of(episode: Any) -> dict[str, Any]:
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


def _first(value: ArrayLike, length: int) -> NDArray[Any]:
    column = np.zeros((length, *np.shape(value)), np.asarray(value).dtype)
    if column.dtype == object:
        column[:] = None
    column[0] = value
    return column


def _arrays(nested: object) -> Any:
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
    return [_episode_of(buffer._store.take(part, stack_num=1), with_infos=with_infos) for part in parts]


def _episode_of(fields: dict[str, Any], *, with_infos: bool) -> dict[str, Any]:
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


class MinariWriter(Writer):
    """A folder with a dataset, whose images are stored exactly.

    :param path: the folder.
    :param length: number of rows that will come.
    :param stack_num: see :class:`Source`.
    :param observation_space: space of the observations.
    :param action_space: space of the environment's actions.
    :param spec: description of the environment, if it is known.
    :param dataset_id: the id of the dataset, such as ``"pendulum/mine-v0"``.
    """

    stacks_rows = False

    def __init__(
        self,
        path: Path,
        length: int,
        stack_num: int = 1,
        *,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        spec: object,
        dataset_id: str,
    ) -> None:
        super().__init__(path, length, stack_num)
        self._minari = require_minari()
        self._episode: list[Part] = []
        data = path.absolute() / "data"  # Minari joins names of files to this twice
        data.mkdir(parents=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a spec that cannot be stored is left out
            self._storage = self._minari.dataset.minari_storage.MinariStorage.new(
                data, observation_space, action_space, spec, jpeg_encoding=False
            )
        self._storage.update_metadata({"dataset_id": dataset_id, "minari_version": self._minari.__version__})

    def write(self, part: Part) -> None:
        """Appends rows.

        :param part: the rows.
        :raises ValueError: if an ``obs_next`` within an episode is not the next row's ``obs``.
        """
        start = 0
        for row in (part["terminated"] | part["truncated"]).nonzero()[0].tolist():
            self._episode.append(tree.take(part, slice(start, row + 1)))
            self._store()
            start = row + 1
        if start < len(part["rew"]):
            self._episode.append(tree.take(part, slice(start, None)))

    def _store(self) -> None:
        fields = tree.joined(self._episode)
        self._episode = []
        episode = _episode_of(fields, with_infos="info" in fields)
        self._storage.update_episodes([self._minari.data_collector.EpisodeBuffer(**episode)])

    def finish(self) -> None:
        """Completes the dataset, and closes its files."""
        if self._episode:
            cut_off(self._episode[-1])
            self._store()
