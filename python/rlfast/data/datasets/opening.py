"""Finding out what a dataset is, and opening it."""

from __future__ import annotations

from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any

from rlfast.data.buffer.base import ReplayBuffer
from rlfast.data.buffer.vector import VectorReplayBuffer
from rlfast.data.datasets.buffers import BufferSource
from rlfast.data.formats.d4rl import D4rlSource, is_d4rl
from rlfast.data.formats.hdf5 import check_links, open_hdf5
from rlfast.data.formats.hdf5_buffer import Hdf5Source, is_of_several_rings
from rlfast.data.formats.minari import MinariSource, require_minari
from rlfast.data.formats.rl_unplugged import UnpluggedSource, is_shard

if TYPE_CHECKING:
    from collections.abc import Callable

    from rlfast.data.datasets.parts import Source

KINDS = ("snapshot", "hdf5", "d4rl", "minari", "rl-unplugged")
"""The kinds of datasets: a file of :meth:`ReplayBuffer.save`, one of :meth:`ReplayBuffer.save_hdf5`, an HDF5
file of D4RL, a dataset of Minari, and a shard of RL Unplugged's Atari games, which is read only."""

_HDF5 = b"\x89HDF\r\n\x1a\n"


def open_source(
    source: str, kind: str | None = None, scratch: str = "ram", *, skip_broken: bool = False, progress: bool = False
) -> Source:
    """Opens a dataset.

    :param source: a file, or the id or the folder of a Minari dataset.
    :param kind: one of :data:`KINDS`; None to find it out.
    :param scratch: where the rows of a snapshot are while they are read: ``"ram"``, or a folder for a scratch file. A
        shard has a scratch file in any case, with ``"ram"`` in the system's folder for temporary files.
    :param skip_broken: whether broken records of a shard are left out, with a warning; if not, they are errors.
    :param progress: whether a bar is shown while a shard is read.
    :return: the dataset.
    :raises FileNotFoundError: if there is no such file.
    :raises ValueError: if it is damaged, or holds something else.
    :raises ImportError: if a library that reads it is missing.
    """
    kind = kind or _kind_of(source)
    path = Path(source)
    if kind == "minari":
        return MinariSource(_minari_dataset(path, source))
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {source}")
    readers: dict[str, Callable[[], Source]] = {
        "d4rl": lambda: D4rlSource(path),
        "hdf5": lambda: _open_hdf5(path, scratch),
        "rl-unplugged": lambda: UnpluggedSource(
            path, Path(gettempdir() if scratch == "ram" else scratch), skip_broken=skip_broken, progress=progress
        ),
        "snapshot": lambda: BufferSource(ReplayBuffer.load(path, storage=scratch)),
    }
    if kind not in readers:
        raise ValueError(f"there is no kind of data {kind!r}: choose from {', '.join(KINDS)}")
    return readers[kind]()


def _kind_of(source: str) -> str:
    path = Path(source)
    if not path.is_file():
        if not path.is_dir() and (path.suffix or source.startswith((".", "/"))):
            raise FileNotFoundError(f"there is no file {source}, and it is no id of a Minari dataset")
        return "minari"
    with path.open("rb") as file:
        is_hdf5 = file.read(len(_HDF5)) == _HDF5
    if not is_hdf5:
        return "rl-unplugged" if is_shard(path) else "snapshot"
    return "d4rl" if is_d4rl(path) else "hdf5"


def _minari_dataset(path: Path, source: str) -> Any:
    if path.is_dir():
        if not (path / "data").is_dir():
            raise ValueError(f"{source} is a folder, but no Minari dataset: it has no folder data")
        minari = require_minari()
        for file in sorted((path / "data").glob("*.hdf5")):
            with open_hdf5(file) as opened:
                check_links(opened)
        return minari.MinariDataset(path.absolute() / "data")
    try:
        return require_minari().load_dataset(source)
    except ImportError as error:
        raise ImportError(f"there is no file {source}, and as the id of a dataset: {error}") from error
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{source} is neither a file nor a Minari dataset of this machine") from error


def _open_hdf5(path: Path, scratch: str) -> Source:
    source = Hdf5Source(path)
    if not source.holds_pickles:
        return source
    source.close()
    kind = VectorReplayBuffer if is_of_several_rings(path) else ReplayBuffer
    return BufferSource(kind.load_hdf5(path, storage=scratch))
