"""Another path to what :mod:`rlfast.data.converter` and :mod:`rlfast.data.formats.hdf5` have."""

from rlfast.data.converter import to_numpy, to_torch, to_torch_as
from rlfast.data.formats.hdf5 import Hdf5ConvertibleType, Hdf5ConvertibleValues, from_hdf5, to_hdf5

__all__ = [
    "Hdf5ConvertibleType",
    "Hdf5ConvertibleValues",
    "from_hdf5",
    "to_hdf5",
    "to_numpy",
    "to_torch",
    "to_torch_as",
]
