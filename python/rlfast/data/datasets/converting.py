"""Writing datasets from others: conversion, merging and splitting.

A dataset is written beside its final place, and moved there when it is complete.
"""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlfast.data.datasets.actions import to_environment_form, to_policy_form
from rlfast.data.datasets.buffers import SnapshotWriter
from rlfast.data.datasets.parts import BASIC, Part, alike, cut_off, stacked
from rlfast.data.formats.d4rl import D4rlWriter
from rlfast.data.formats.hdf5_buffer import Hdf5Writer
from rlfast.data.formats.minari import MinariSource, MinariWriter
from rlfast.data.schema import flatten, nest
from rlfast.utils import tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import gymnasium as gym

    from rlfast.data.datasets.parts import Source, Writer

_WRITERS: dict[str, Any] = {"snapshot": SnapshotWriter, "hdf5": Hdf5Writer, "d4rl": D4rlWriter, "minari": MinariWriter}
WRITABLE = (*_WRITERS,)
"""The kinds of data that can be written."""

_OF_ENVIRONMENTS = ("d4rl", "minari")


@dataclass(frozen=True, kw_only=True)
class Target:
    """What is written.

    :param kind: the kind of data, one of :data:`WRITABLE`.
    :param observation_space: space of observations, which a Minari dataset names.
    :param action_space: space of the environment's actions, for a conversion between the two forms of actions.
    :param spec: description of the environment, for a Minari dataset.
    """

    kind: str
    observation_space: gym.Space[Any] | None = None
    action_space: gym.Space[Any] | None = None
    spec: Any = None


def write(
    sources: Sequence[Source],
    out: Path,
    target: Target,
    *,
    size: int | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> list[Path]:
    """Writes all rows of datasets, one after the other.

    Columns besides those of a transition, such as ``info``, are written if all datasets have them.

    :param sources: the datasets.
    :param out: the file, or the folder of a Minari dataset.
    :param target: what is written.
    :param size: with it, several files are written, each with so many rows except for the last. Their names end with
        ``-00000-of-00003`` and so on. An episode that does not end with a file counts as truncated there.
    :param advance: called with numbers of rows that were written.
    :return: the files.
    :raises ValueError: if there are no rows, the datasets do not fit together, or the format cannot hold them.
    :raises OSError: if a file cannot be written. Nothing is left behind then.
    """
    total, stack_num = _check(sources, out, target)
    size = min(size or total, total)
    number = -(-total // size)
    paths = [out] if size == total else [_numbered(out, k, number) for k in range(number)]
    if target.kind == "minari" and (there := [path for path in paths if path.exists()]):
        raise FileExistsError(f"{there[0]} is there already: remove it, or choose another name")
    rows = _cut(alike(_prepared(sources, target, total)), size)
    with _staged(paths) as temporary:
        for k, path in enumerate(temporary):
            length = min(size, total - k * size)
            _write_one(_writer(target, path, paths[k].name, length, stack_num, sources), rows, length, advance)
    return paths


def _check(sources: Sequence[Source], out: Path, target: Target) -> tuple[int, int]:
    """Returns the number of rows and their ``stack_num``."""
    if target.kind not in _WRITERS:
        raise ValueError(f"there is no kind of data {target.kind!r} to write: choose from {', '.join(_WRITERS)}")
    total = sum(source.length for source in sources)
    if not total:
        raise ValueError("there are no transitions to write")
    if not out.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {out.parent}")
    if target.kind != "minari" and out.is_dir():
        raise IsADirectoryError(f"{out} is a folder: give the name of a file")
    stacks = {source.stack_num for source in sources}
    if not _WRITERS[target.kind].stacks_rows:
        return total, 1
    if len(stacks) > 1:
        raise ValueError(f"observations of the datasets are stacks of different lengths: {sorted(stacks)}")
    return total, stacks.pop()


def _numbered(out: Path, k: int, number: int) -> Path:
    return out.with_name(f"{out.stem}-{k:05d}-of-{number:05d}{out.suffix}")


@contextmanager
def _staged(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """Gives a name beside each path, and moves what was written there; after an error, removes it."""
    temporary = [path.with_name(f".{path.name}.{os.getpid()}.part") for path in paths]
    for path in temporary:
        if path.is_symlink():
            path.unlink()  # its target would be written to
    try:
        yield temporary
        for source, path in zip(temporary, paths, strict=True):
            source.replace(path)
    finally:
        for path in temporary:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _writer(target: Target, path: Path, name: str, length: int, stack_num: int, sources: Sequence[Source]) -> Writer:
    if target.kind != "minari":
        writer: Writer = _WRITERS[target.kind](path, length, stack_num)
        return writer
    space = _action_space(target, sources)
    known: Any = next((source.dataset for source in sources if isinstance(source, MinariSource)), None)
    obs_space = target.observation_space or (known and known.observation_space)
    if space is None or obs_space is None:
        raise ValueError("a Minari dataset names the spaces of its environment: give --env")
    spec = target.spec or (known and known.env_spec)
    dataset_id = name if "-v" in name else f"{name}-v0"
    return MinariWriter(path, length, observation_space=obs_space, action_space=space, spec=spec, dataset_id=dataset_id)


def _write_one(writer: Writer, rows: Iterator[Part], length: int, advance: Callable[[int], None]) -> None:
    try:
        written = 0
        while written < length:
            part = next(rows)  # sources have as many rows as they say
            written += len(part["rew"])
            if written == length:
                cut_off(part)
            writer.write(part)
            advance(len(part["rew"]))
        writer.finish()
    except BaseException:
        writer.abandon()
        raise


def _cut(parts: Iterator[Part], size: int) -> Iterator[Part]:
    """Cuts parts so that each multiple of ``size`` rows is an edge of a part."""
    seen = 0
    for part in parts:
        start, length = 0, len(part["rew"])
        while start < length:
            stop = min(length, start + size - seen % size)
            yield part if (start, stop) == (0, length) else tree.take(part, slice(start, stop))
            seen += stop - start
            start = stop


def _prepared(sources: Sequence[Source], target: Target, total: int) -> Iterator[Part]:
    """Returns the rows of all datasets as the target has them."""
    kept = _common_columns(sources) if len(sources) > 1 else None
    to_environment = target.kind in _OF_ENVIRONMENTS
    for source in sources:
        parts = source.parts()
        if source.stack_num > 1 and not _WRITERS[target.kind].stacks_rows:
            parts = stacked(parts, source.stack_num)
        space = _action_space(target, [source])
        if source.in_environment_form != to_environment and space is None and total:
            raise ValueError(
                f"actions of {target.kind} data are those of {'environments' if to_environment else 'policies'}, and "
                "those given are not: name the environment with --env"
            )
        for part in parts:
            if kept is not None:
                part = nest({path: leaf for path, leaf in flatten(part)[0].items() if path in kept})  # noqa: PLW2901
            if source.in_environment_form != to_environment and space is not None:
                convert = to_environment_form if to_environment else to_policy_form
                part["act"] = convert(part["act"], space)
            yield part


def _action_space(target: Target, sources: Sequence[Source]) -> gym.Space[Any] | None:
    known = [source.action_space for source in sources if source.action_space is not None]
    return target.action_space or (known[0] if known else None)


def _common_columns(sources: Sequence[Source]) -> set[Any]:
    """Returns the paths of the columns that all datasets have."""
    have = [set(flatten(next(source.parts()))[0]) for source in sources if source.length]
    common = set.intersection(*have)
    for path in have[0] | common:
        if path[0] in BASIC and any(path not in one for one in have):
            raise ValueError(f"not all datasets have {'.'.join(path)}")
    return common
