"""Nested dicts and batches in HDF5 groups, in the layout of Tianshou: files written by either load in the other.

A dict is a group and a ``Batch`` a group whose attribute ``__data_type__`` says so; numbers are attributes; an array or
a tensor is a dataset; whatever HDF5 has no type for is a pickle in a dataset of bytes. A file is read as data: pickles
are not run (see :mod:`rlfast.data.safe_pickle`), links are refused, and no more memory is taken than it can fill.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from rlfast.data.batch.batch import Batch, parse, wrap
from rlfast.data.batch.values import is_tensor, to_tensor
from rlfast.data.safe_pickle import Global, dumps, loads

if TYPE_CHECKING:
    import h5py

#: What :func:`to_hdf5` takes: what HDF5 has no type for is pickled.
Hdf5ConvertibleValues: TypeAlias = object
Hdf5ConvertibleType: TypeAlias = dict[str, Hdf5ConvertibleValues]

#: No filter of HDF5 packs more than this many bytes into one (deflate: 1032).
_MAX_COMPRESSION = 1100
_MAX_DEPTH = 64


def require_h5py() -> Any:
    """The module ``h5py``.

    :raises ImportError: it is not installed; says how to.
    """
    try:
        import h5py
    except ImportError as error:
        raise ImportError("HDF5 files need h5py: pip install 'rlfast[hdf5]'") from error
    return h5py


def to_hdf5(
    x: Mapping[str, Any] | Batch,
    y: h5py.Group,
    compression: str | None = None,
    *,
    names: Mapping[type, Global] | None = None,
) -> None:
    """Writes the entries of a dict into a group.

    :param x: numbers, arrays, tensors, dicts and batches are stored as such, other objects as pickles.
    :param y: the group, or an open file.
    :param compression: an h5py filter such as "gzip" for all datasets.
    :param names: what classes are called in pickles (module and name), for readers that have them elsewhere.
    :raises ValueError: a key is not a name that HDF5 can hold.
    :raises RuntimeError: an array can be neither stored nor pickled.
    :raises NotImplementedError: an object cannot be pickled.
    """
    for key, value in x.items():
        if not _is_name(key):
            raise ValueError(f"a key in an HDF5 file is a string without '/', got {key!r}")
        if isinstance(value, Batch | Mapping):
            group = y.create_group(key)
            if isinstance(value, Batch):
                group.attrs["__data_type__"] = "Batch"
            to_hdf5(value.to_dict() if isinstance(value, Batch) else value, group, compression, names=names)
        elif isinstance(value, bool | float) or (isinstance(value, int) and -(2**63) <= value < 2**64):
            y.attrs[key] = value
        else:
            data, kind = _dataset(value, names)
            # A single value or none cannot be cut into the chunks that a filter works on.
            y.create_dataset(key, data=data, compression=compression if data.size and data.shape else None)
            y[key].attrs["__data_type__"] = kind


def _is_name(key: object) -> bool:
    return isinstance(key, str) and "/" not in key and key not in {"", ".", "..", "__data_type__"}


def _dataset(value: Any, names: Mapping[type, Global] | None) -> tuple[Any, str]:
    """What stands for a value in a file, and the name of its kind."""
    if is_tensor(value):
        return value.detach().cpu().numpy(), "Tensor"
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
    """Reads what :func:`to_hdf5` or Tianshou wrote.

    :param x: a group, an open file, or a dataset.
    :param device: of the tensors.
    :param allow_pickle: run the pickles in the file; only for files you trust.
    :param classes: classes that may be rebuilt from pickles without that, by module and name: their instances are made
        without calling ``__init__`` and given the pickled state.
    :returns: a dict, a ``Batch``, an array, a tensor or an object.
    :raises ValueError: the file holds something else, links, or data sizes that it has no bytes for.
    :raises pickle.UnpicklingError: a pickle asks for more than plain data.
    """
    return _Reader(device, allow_pickle=allow_pickle, classes=classes).read(x, depth=0)


class _Reader:
    def __init__(self, device: str | None, *, allow_pickle: bool, classes: Mapping[Global, type] | None) -> None:
        self._h5py = require_h5py()
        self._device = device
        self._allow_pickle = allow_pickle
        self._classes = classes
        self._seen: set[tuple[int, int]] = set()

    def read(self, x: Any, depth: int) -> Any:
        info = self._h5py.h5o.get_info(x.id)
        place = (info.fileno, info.addr)
        if place in self._seen or depth > _MAX_DEPTH:  # an honest file is a tree; a loop of links would have no end
            raise ValueError(f"{x.name} is reached twice or nested too deep")
        self._seen.add(place)
        return self._read_dataset(x) if isinstance(x, self._h5py.Dataset) else self._read_group(x, depth)

    def _read_group(self, x: Any, depth: int) -> Any:
        values = dict(x.attrs.items())
        data_type = values.pop("__data_type__", None)
        for key in x:
            if not isinstance(x.get(key, getlink=True), self._h5py.HardLink):
                raise ValueError(f"{x.name} holds a link {key!r} instead of data")
            values[key] = self.read(x[key], depth + 1)
        return _as_batch(values) if data_type == "Batch" else values

    def _read_dataset(self, x: Any) -> Any:
        kind = x.attrs.get("__data_type__")
        if kind is None:
            raise ValueError(f"dataset {x.name} lacks the attribute __data_type__: not written by rlfast or Tianshou")
        self._check_size(x)
        data = np.array(x)
        if kind == "ndarray":
            return data
        if kind == "Tensor":
            return to_tensor(data, None, self._device or "cpu")
        return loads(data.tobytes(), self._classes, allow_pickle=self._allow_pickle)

    @staticmethod
    def _check_size(x: Any) -> None:
        if x.is_virtual or x.external:
            raise ValueError(f"dataset {x.name} keeps its data in another file")
        stored = x.id.get_storage_size() * (_MAX_COMPRESSION if x.id.get_create_plist().get_nfilters() else 1)
        if x.nbytes > stored:
            raise ValueError(
                f"dataset {x.name} claims {x.nbytes} bytes, and the file has {x.id.get_storage_size()} for it"
            )


def _as_batch(values: dict[str, Any]) -> Batch:
    # Only groups and numbers change on the way into a Batch; pickled objects were fields of one as they are.
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
