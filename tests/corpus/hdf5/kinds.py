"""All kinds of values through an HDF5 file."""

import json
import os
import tempfile

import h5py
import numpy as np
import torch
from tianshou.data import Batch
from tianshou.data.utils.converter import from_hdf5, to_hdf5

here = os.getcwd()
folder = tempfile.TemporaryDirectory()
os.chdir(folder.name)

data = {
    "int": 3,
    "float": 2.5,
    "array": np.arange(6, dtype=np.float32).reshape(2, 3),
    "flags": np.array([True, False]),
    "tensor": torch.arange(4).reshape(2, 2),
    "none": None,
    "text": "words",
    "list": [1, "x", None],
    "objects": np.array([None, 1, "y"], dtype=object),
    "dict": {"deep": {"n": 1, "a": np.zeros((0, 2))}},
    "batch": Batch(obs=np.ones(3), info=Batch(step=np.arange(3)), empty=Batch()),
}
with h5py.File("values.hdf5", "w") as file:
    to_hdf5(data, file)
with h5py.File("values.hdf5", "r") as file:
    back = from_hdf5(file)
with h5py.File("packed.hdf5", "w") as file:
    to_hdf5({"zeros": np.zeros(10_000)}, file, compression="gzip")
    packed = file["zeros"].compression
print(
    json.dumps(
        {
            "plain": [int(back["int"]), float(back["float"]), back["none"], back["text"], back["list"]],
            "array": [back["array"].tolist(), str(back["array"].dtype), back["flags"].tolist()],
            "tensor": [type(back["tensor"]).__name__, back["tensor"].tolist()],
            "objects": list(back["objects"]),
            "dict": [int(back["dict"]["deep"]["n"]), list(back["dict"]["deep"]["a"].shape), type(back["dict"]).__name__],
            "batch": [type(back["batch"]).__name__, back["batch"].info.step.tolist(), back["batch"].empty.is_empty()],
            "packed": packed,
        }
    )
)
os.chdir(here)
folder.cleanup()
