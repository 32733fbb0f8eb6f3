"""Datasets of Minari in folders. Actions are the environment's, and an episode has one observation more than steps."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from rlfast.data.buffer.io.minari import episode_of, fields_of, require_minari
from rlfast.data.datasets.parts import Part, Source, Writer, cut_off, ranges, rows_at_once
from rlfast.utils import tree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import gymnasium as gym


class MinariSource(Source):
    """The rows of a dataset, episode by episode; an episode without an end counts as truncated.

    :param dataset: a ``MinariDataset``.
    """

    def __init__(self, dataset: Any) -> None:
        super().__init__(int(dataset.total_steps), in_environment_form=True, action_space=dataset.action_space)
        self.dataset = dataset

    def parts(self) -> Iterator[Part]:
        """Returns all rows, in order."""
        for episode in self.dataset.iterate_episodes():
            fields = fields_of(episode)
            length = len(fields["rew"])
            if not length:
                continue
            cut_off(fields)
            for place in ranges(length, rows_at_once(tree.take(fields, slice(1)))):
                yield tree.take(fields, place)


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
        spec: Any,
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
        episode = episode_of(fields, with_infos="info" in fields)
        self._storage.update_episodes([self._minari.data_collector.EpisodeBuffer(**episode)])

    def finish(self) -> None:
        """Completes the dataset, and closes its files."""
        if self._episode:
            cut_off(self._episode[-1])
            self._store()
