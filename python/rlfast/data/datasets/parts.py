"""Sources of transitions and writers of them, which handle a part of the rows at a time.

A part is a dict of columns: ``obs``, ``act``, ``rew``, ``terminated``, ``truncated``, ``obs_next``, and whatever else a
buffer holds, such as ``info``. Parts follow each other as the rows of one buffer do: ``obs_next`` of a row that ends no
episode belongs to the episode of the next row, and the last row of a source always ends its episode.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlfast.data._leaves import Column, convert, dotted
from rlfast.data.schema import flatten, nest
from rlfast.utils import tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import gymnasium as gym
    import h5py

Part: TypeAlias = dict[str, Any]

BASIC = ("obs", "act", "rew", "terminated", "truncated", "obs_next")
"""The columns of each part."""

_NUMBERS = {*"biufc"}
_PART_BYTES = 8 << 20
_PART_ROWS = 1 << 14


class Source(ABC):
    """A dataset that is read. It is a context manager, which closes the files.

    :param length: number of rows.
    :param stack_num: number of rows whose observations make one observation, as in a buffer.
    :param in_environment_form: whether actions are those of the environment; if not, they are those of policies.
    :param action_space: the space of the actions, where the dataset names it.
    """

    def __init__(
        self,
        length: int,
        *,
        stack_num: int = 1,
        in_environment_form: bool = False,
        action_space: gym.Space[Any] | None = None,
    ) -> None:
        self.length, self.stack_num = length, stack_num
        self.in_environment_form, self.action_space = in_environment_form, action_space

    _file: Any = None  # an open file, if the dataset is one

    @abstractmethod
    def parts(self) -> Iterator[Part]:
        """Returns all rows, in order."""

    def flags(self) -> Iterator[Part]:
        """Returns ``rew``, ``terminated`` and ``truncated`` of all rows, in order."""
        yield from self.parts()

    def close(self) -> None:
        """Closes the files."""
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class Writer(ABC):
    """A dataset that is written, to a path where nothing is yet.

    :param path: the file or folder.
    :param length: number of rows that will come.
    :param stack_num: see :class:`Source`.
    """

    stacks_rows = True
    """Whether the format has a place for ``stack_num``. If not, observations come as whole stacks."""
    _file: Any = None  # an open file, if the dataset is one

    def __init__(self, path: Path, length: int, stack_num: int = 1) -> None:
        self.path, self.length, self.stack_num = path, length, stack_num
        self._rows = 0  # rows that were written

    @abstractmethod
    def write(self, part: Part) -> None:
        """Appends rows.

        :param part: the rows.
        """

    def _append(self, group: h5py.Group, name: str, column: NDArray[Any]) -> bool:
        """Writes the next rows of a column of an HDF5 file.

        :return: whether the column was made.
        """
        is_new = name not in group
        if is_new:
            group.create_dataset(name, (self.length, *column.shape[1:]), column.dtype)
        group[name][self._rows : self._rows + len(column)] = column
        return is_new

    def finish(self) -> None:
        """Completes the dataset, and closes its files."""
        self.abandon()

    def abandon(self) -> None:
        """Closes the files of a dataset that will not be completed."""
        if self._file is not None:
            self._file.close()


def rows_at_once(columns: Part) -> int:
    """Returns the number of rows of a part, such that it has a few megabytes.

    :param columns: nested arrays, or datasets of a file, of any number of rows.
    """
    size = sum(leaf.dtype.itemsize * math.prod(leaf.shape[1:]) for leaf in tree.leaves(columns))
    return int(np.clip(_PART_BYTES // max(size, 1), 1, _PART_ROWS))


def ranges(length: int, step: int) -> Iterator[slice]:
    """Returns the slices of ``step`` rows that make up ``length`` rows.

    :param length: number of all rows.
    :param step: number of rows of a slice; the last one may have fewer.
    """
    for start in range(0, length, step):
        yield slice(start, min(start + step, length))


def cut_off(part: Part) -> None:
    """Ends the episode of the last row of a part: it is truncated, unless it ends already.

    :param part: the rows, whose flags are replaced.
    """
    part["truncated"] = np.array(part["truncated"], np.bool_)
    part["truncated"][-1] |= not part["terminated"][-1]


def alike(parts: Iterable[Part]) -> Iterator[Part]:
    """Returns parts with the dtypes and the shapes of the first one, which files of arrays need.

    :param parts: the parts. Columns of objects and of text are left as they are.
    :raises ValueError: if values would change by more than rounding to a float of lower precision, or shapes differ.
    """
    columns: dict[Any, Any] = {}
    for part in parts:
        leaves = flatten(part)[0]
        for path, leaf in leaves.items():
            first = columns.setdefault(path, Column(leaf.dtype, leaf.shape[1:]))
            same = (leaf.dtype, leaf.shape[1:]) == (first.dtype, first.shape)
            if same or {leaf.dtype.kind, first.dtype.kind} - _NUMBERS:
                continue
            if _squeezed(leaf.shape[1:]) != _squeezed(first.shape):
                shapes = f"{leaf.shape[1:]} and {first.shape}"
                raise ValueError(f"the datasets do not fit together: {dotted(path)} has rows of shapes {shapes}")
            try:
                leaves[path] = convert(leaf, first.dtype, path).reshape(len(leaf), *first.shape)
            except TypeError as error:
                raise ValueError(f"the datasets do not fit together: {error}") from error
        yield nest(leaves)


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(length for length in shape if length != 1)


def stacked(parts: Iterable[Part], stack_num: int) -> Iterator[Part]:
    """Returns rows whose observations are stacks, oldest first, which begin at the first row of an episode.

    Before that row, its observation is repeated.

    :param parts: rows with single observations.
    :param stack_num: number of observations of a stack.
    """
    before: Any = None
    age = 0  # rows of the running episode, in front of the part
    for part in parts:
        done = np.asarray(part["terminated"]) | np.asarray(part["truncated"])
        ages = _ages(done, age)
        kept = min(age, stack_num - 1)
        obs = part["obs"] if before is None else tree.map_leaves(_joined, before, part["obs"])
        offset = len(next(tree.leaves(obs))) - len(done)
        back = np.minimum(np.arange(stack_num)[::-1], ages[:, None])
        places = offset + np.arange(len(done))[:, None] - back
        stacks = tree.map_leaves(lambda leaf, at=places: leaf[at], obs)
        yield part | {"obs": stacks, "obs_next": tree.map_leaves(_shifted, stacks, part["obs_next"])}
        age = 0 if done[-1] else int(ages[-1]) + 1
        kept = min(age, stack_num - 1)
        before = tree.map_leaves(lambda leaf, n=kept: leaf[len(leaf) - n :].copy(), obs)


def _ages(done: NDArray[np.bool_], age: int) -> NDArray[np.int64]:
    """Returns how many rows of its episode precede each row; ``age`` precede the first one."""
    places = np.arange(len(done))
    starts = np.where(np.append(False, done[:-1]), places, -age)
    return places - np.maximum.accumulate(np.append(-age, starts[1:]))


def _joined(before: object, now: object) -> Any:
    return np.concatenate([before, now])


def _shifted(stacks: NDArray[Any], following: NDArray[Any]) -> Any:
    return np.concatenate([stacks[:, 1:], np.asarray(following)[:, None]], axis=1)
