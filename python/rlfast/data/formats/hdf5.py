"""Nested dicts and batches in HDF5 groups.

A dict is stored as a group; a ``Batch`` as a group with the attribute ``__data_type__``; a number as an attribute; an
array or a tensor as a dataset; and any other object as a pickle in a dataset of bytes. Reading a file runs no code in
it: pickles may hold only plain data (see :mod:`rlfast.data.formats.safe_pickle`), links are refused, and a dataset may
not claim a size that the file does not have.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from rlfast.data.batch.batch import Batch, parse, wrap
from rlfast.data.batch.values import to_tensor
from rlfast.data.formats.safe_pickle import Global, dumps, loads
from rlfast.utils.runtime.extras import needed_by
from rlfast.utils.tree import as_host, is_tensor

if TYPE_CHECKING:
    import h5py

#: The values that :func:`to_hdf5` takes: any object, because values without a type in HDF5 are pickled.
Hdf5ConvertibleValues: TypeAlias = object
Hdf5ConvertibleType: TypeAlias = dict[str, Hdf5ConvertibleValues]

#: An upper bound of the compression ratio of HDF5 filters (that of deflate is 1032).
_MAX_COMPRESSION = 1100
_MAX_DEPTH = 64


def require_h5py() -> Any:
    """Imports and returns the module ``h5py``.

    :raises ImportError: it is not installed; the message says how to install it.
    """
    with needed_by("an HDF5 file"):
        import h5py
    return h5py


def open_hdf5(path: str | os.PathLike[str], **options: Any) -> Any:
    """Opens a file for reading.

    :param path: the file.
    :param options: arguments of ``h5py.File``.
    :raises OSError: if it is no HDF5 file, or cannot be opened.
    :raises ValueError: if it is no regular file: HDF5 would wait for a pipe.
    """
    h5py = require_h5py()
    if not stat.S_ISREG(Path(path).stat().st_mode):
        raise ValueError(f"{os.fspath(path)} is a folder, a pipe or a device: an HDF5 file is needed")
    try:
        return h5py.File(path, "r", **options)
    except OSError as error:
        raise type(error)(f"{os.fspath(path)} cannot be read as an HDF5 file: {error}") from error


def create_hdf5(path: Path) -> Any:
    """Makes a file. What was there before, such as a link, is removed, and not written to.

    :param path: the file.
    """
    path.unlink(missing_ok=True)
    return require_h5py().File(path, "x")


def member(group: h5py.Group, key: str) -> Any:
    """Returns what a group itself holds. Links are not followed: they lead to other files, to pipes, or around.

    :param group: a group, or an open file.
    :param key: its name there.
    :return: a group or a dataset; None if there is none.
    :raises ValueError: if it is a link.
    """
    h5py, name = require_h5py(), key.encode("utf-8", "surrogateescape")
    if not group.id.links.exists(name):
        return None
    if group.id.links.get_info(name).type != h5py.h5l.TYPE_HARD:
        raise ValueError(f"{group.name} holds a link {key!r} instead of data")
    return group[key]


def check_links(file: h5py.File) -> None:
    """Checks that all groups and datasets of a file are in it, for a library that would follow links.

    :param file: the open file.
    :raises ValueError: if one is not.
    """
    hard = require_h5py().h5l.TYPE_HARD
    found = file.id.links.visit(lambda name, info: name if info.type != hard else None, info=True)
    if found is not None:
        raise ValueError(f"{file.filename} holds a link {found.decode(errors='replace')!r} instead of data")


def to_hdf5(
    x: Mapping[str, Any] | Batch,
    y: h5py.Group,
    compression: str | None = None,
    *,
    names: Mapping[type, Global] | None = None,
) -> None:
    """Writes the entries of a dict into a group.

    :param x: the entries. Numbers, arrays, tensors, dicts and batches are stored as such, other objects as pickles.
    :param y: the group, or an open file.
    :param compression: an h5py filter such as "gzip" for all datasets.
    :param names: the import paths (module and name) to write for classes in pickles, where the reader has them in
        another module.
    :raises ValueError: a key is not a valid HDF5 name.
    :raises RuntimeError: an array can be neither stored nor pickled.
    :raises NotImplementedError: an object cannot be pickled.
    """
    for key, value in x.items():
        if not _is_name(key):
            raise ValueError(f"a key in an HDF5 file is a string without '/' and without a zero byte, got {key!r}")
        if isinstance(value, Batch | Mapping):
            group = y.create_group(key)
            if isinstance(value, Batch):
                group.attrs["__data_type__"] = "Batch"
            to_hdf5(value.to_dict() if isinstance(value, Batch) else value, group, compression, names=names)
        elif isinstance(value, bool | float) or (isinstance(value, int) and -(2**63) <= value < 2**64):
            y.attrs[key] = value
        else:
            data, kind = _dataset(value, names)
            # Filters work on chunks, and a dataset of a single value or of none has no chunks.
            y.create_dataset(key, data=data, compression=compression if data.size and data.shape else None)
            y[key].attrs["__data_type__"] = kind


def _is_name(key: object) -> bool:
    return isinstance(key, str) and not {"/", "\0"} & {*key} and key not in {"", ".", "..", "__data_type__"}


def _dataset(value: object, names: Mapping[type, Global] | None) -> tuple[Any, str]:
    """Returns the data that a dataset holds for a value, and the name of its type."""
    if is_tensor(value):
        return as_host(value), "Tensor"
    if isinstance(value, np.ndarray):
        if not value.dtype.hasobject and value.dtype.kind in "biufcSV":
            return value, "ndarray"
        try:
            return np.frombuffer(dumps(value, names), dtype=np.byte), "pickled_ndarray"
        except Exception as error:
            raise RuntimeError(
                f"an array of dtype {value.dtype} is stored as a pickle, which failed: {error}"
            ) from error
    try:
        return np.frombuffer(dumps(value, names), dtype=np.byte), type(value).__name__
    except Exception as error:
        raise NotImplementedError(f"{type(value)} is stored as a pickle, which failed: {error}") from error


def from_hdf5(
    x: h5py.Group | h5py.Dataset,
    device: str | None = None,
    *,
    allow_pickle: bool = False,
    classes: Mapping[Global, type] | None = None,
) -> Any:
    """Reads a file that :func:`to_hdf5` wrote.

    :param x: a group, an open file, or a dataset.
    :param device: the device of the tensors; None for the CPU.
    :param allow_pickle: whether pickles in the file may run any code; only for files you trust.
    :param classes: classes that are allowed in pickles even so, by module and name. Their instances are created
        without calling ``__init__`` and are given the pickled state.
    :return: a dict, a ``Batch``, an array, a tensor or an object.
    :raises ValueError: the file is not of this layout, has links, or claims a size that it does not have.
    :raises pickle.UnpicklingError: a pickle holds more than plain data.
    """
    return _Reader(device, allow_pickle=allow_pickle, classes=classes).read(x, depth=0)


class _Reader:
    def __init__(self, device: str | None, *, allow_pickle: bool, classes: Mapping[Global, type] | None) -> None:
        self._h5py = require_h5py()
        self._device = device
        self._allow_pickle = allow_pickle
        self._classes = classes
        self._seen: set[tuple[int, int]] = set()

    def read(self, x: h5py.HLObject, depth: int) -> Any:
        check_once(x, self._seen, depth)
        if isinstance(x, self._h5py.Dataset):
            return self._read_dataset(x)
        if isinstance(x, self._h5py.Group):
            return self._read_group(x, depth)
        raise ValueError(f"{x.name} is neither a group nor a dataset")

    def _read_group(self, x: h5py.Group, depth: int) -> Any:
        values = dict(x.attrs.items())
        data_type = values.pop("__data_type__", None)
        for key in x:
            values[key] = self.read(member(x, key), depth + 1)
        return _as_batch(values) if data_type == "Batch" else values

    def _read_dataset(self, x: h5py.Dataset) -> Any:
        kind = x.attrs.get("__data_type__")
        if kind is None:
            raise ValueError(f"dataset {x.name} lacks the attribute __data_type__: not written by to_hdf5")
        check_dataset(x, text=kind == "ndarray")
        data = np.array(x)
        if kind == "ndarray":
            return data
        if kind == "Tensor":
            return to_tensor(data, None, self._device or "cpu")
        return loads(data.tobytes(), self._classes, allow_pickle=self._allow_pickle)


def check_once(x: h5py.HLObject, seen: set[tuple[int, int]], depth: int) -> None:
    """Checks that groups and datasets are a tree, as those of valid files are. In others, a walk might never end.

    :param x: a group or dataset.
    :param seen: what was reached before, to which it is added.
    :param depth: how many groups it is in.
    :raises ValueError: if it was reached before, or is nested too deep.
    """
    info = require_h5py().h5o.get_info(x.id)
    place = (info.fileno, info.addr)
    if place in seen or depth > _MAX_DEPTH:
        raise ValueError(f"{x.name} is reached twice or nested too deep")
    seen.add(place)


def check_dataset(x: object, *, text: bool = False) -> None:
    """Checks that a dataset holds numbers or bytes, and that a file can have as many as it claims.

    :param x: the dataset.
    :param text: whether it may hold texts of different lengths. Default: False.
    :raises ValueError: if it has fewer, they are in another file, or it holds references or is no dataset.
    """
    if not isinstance(x, require_h5py().Dataset):
        raise ValueError(f"{getattr(x, 'name', x)} is no dataset")
    if x.shape is None:
        raise ValueError(f"dataset {x.name} has no value")
    if x.is_virtual or x.external:
        raise ValueError(f"dataset {x.name} keeps its data in another file")
    if x.dtype.hasobject and not (text and require_h5py().check_string_dtype(x.dtype)):
        raise ValueError(f"dataset {x.name} holds references or values of different lengths, which are no numbers")
    stored = x.id.get_storage_size() * (_MAX_COMPRESSION if x.id.get_create_plist().get_nfilters() else 1)
    if x.nbytes > stored:
        raise ValueError(f"dataset {x.name} claims {x.nbytes} bytes, and the file has {x.id.get_storage_size()} for it")


def _as_batch(values: dict[str, Any]) -> Batch:
    # Only groups and numbers need conversion: the other values were fields of a Batch when they were stored.
    return wrap(
        {
            key: _as_batch(value)
            if isinstance(value, dict)
            else parse(value)
            if isinstance(value, np.generic)
            else value
            for key, value in values.items()
        }
    )
