"""The Atari shards of RL Unplugged (Gulcehre et al., arXiv:2006.13888).

A shard is a TFRecord file in gzip, whose rows are shuffled. They are read into an order in which a row mostly stands
before the row that it led to, found by their content: the images, the action and the episode. Where the content
belongs to several rows, as when images do not change, it is not known which row follows: the episode then counts as
truncated, and goes on as another one.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from rlfast._core import UnpluggedShards
from rlfast.data.datasets.parts import Part, Source, ranges, rows_at_once
from rlfast.utils.progress_bar import ProgressBar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_RECORDS = 2000
_GZIP = b"\x1f\x8b"


class SkippedWarning(UserWarning):
    """Broken records were left out."""


def is_shard(path: Path) -> bool:
    """Returns whether a file is compressed by gzip, as shards are.

    :param path: the file.
    """
    with path.open("rb") as file:
        return file.read(len(_GZIP)) == _GZIP


class UnpluggedSource(Source):
    """The rows of a shard.

    ``obs`` and ``obs_next`` are uint8 ``[4, height, width]``, oldest image first. ``info`` has ``episode_id`` and
    ``episode_return``, the sum of the clipped rewards of the episode.

    :param path: the file.
    :param scratch: a folder for a scratch file of its images.
    :param skip_broken: whether broken records are left out, with a warning; if not, they are errors.
    :param progress: whether a bar is shown while it is read.
    :raises OSError: if the file cannot be read, or the scratch file cannot be written.
    :raises ValueError: if a record or the file is broken.
    """

    def __init__(self, path: Path, scratch: Path, *, skip_broken: bool = False, progress: bool = False) -> None:
        self._shards = UnpluggedShards(scratch, skip_broken)
        self._read(path, progress=progress)
        if skipped := self._shards.skipped:
            many = f", and {len(skipped) - 1:,} more" if len(skipped) > 1 else ""
            warnings.warn(f"left out: {skipped[0]}{many}", SkippedWarning, stacklevel=2)
        super().__init__(len(self._shards))

    def _read(self, path: Path, *, progress: bool) -> None:
        self._shards.open(path)
        goes_on, done = True, 0
        with ProgressBar(path.stat().st_size, f"reading {path.name}", unit="B", shown=progress) as bar:
            while goes_on:
                read, goes_on = self._shards.read(_RECORDS)
                bar.update(read - done, {})
                done = read

    def parts(self) -> Iterator[Part]:
        """Returns all rows, in order."""
        if not self.length:
            return
        first = self._shards.observations(0, 1)
        for place in ranges(self.length, rows_at_once({"obs": first})):
            obs, obs_next = self._shards.observations(place.start, place.stop)
            values = self._shards.values(place.start, place.stop)
            info = {name: values[name] for name in ("episode_id", "episode_return")}
            yield {"obs": obs, "act": values["a_t"], "obs_next": obs_next, "info": info, **self._flags(place)}

    def flags(self) -> Iterator[Part]:
        """Returns ``rew``, ``terminated`` and ``truncated`` of all rows, in order."""
        yield self._flags(slice(0, self.length))

    def _flags(self, place: slice) -> Part:
        values = self._shards.values(place.start, place.stop)
        terminated = values["d_t"] == 0
        truncated = ~terminated & ~values["continues"]
        return {"rew": values["r_t"].astype(np.float64), "terminated": terminated, "truncated": truncated}
