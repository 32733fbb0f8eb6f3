"""A buffer made of datasets in a file, as offline data comes."""

import json
import os
import tempfile

import h5py
import numpy as np
from tianshou.data import ReplayBuffer

here = os.getcwd()
folder = tempfile.TemporaryDirectory()
os.chdir(folder.name)

with h5py.File("offline.hdf5", "w") as file:
    file["observations"] = np.arange(20.0).reshape(10, 2)
    file["actions"] = np.arange(10)
    file["rewards"] = np.linspace(0, 1, 10)
    file["terminals"] = np.arange(10) == 4
    file["timeouts"] = np.arange(10) == 9
    file["next_observations"] = np.arange(20.0).reshape(10, 2) + 2
with h5py.File("offline.hdf5", "r") as file:
    buffer = ReplayBuffer.from_data(
        obs=file["observations"], act=file["actions"], rew=file["rewards"], terminated=file["terminals"], truncated=file["timeouts"],
        done=np.logical_or(file["terminals"][:], file["timeouts"][:]), obs_next=file["next_observations"],
    )
batch, index = buffer.sample(0)
print(
    json.dumps(
        {
            "len": [len(buffer), buffer.maxsize],
            "rows": sorted(batch.act.tolist()),
            "sum": float(batch.rew.sum()),
            "done": np.flatnonzero(buffer.done).tolist(),
            "next": buffer.next(np.array([2, 3, 4, 5])).tolist(),
            "obs_next": buffer[np.array([3])].obs_next.tolist(),
        }
    )
)
os.chdir(here)
folder.cleanup()
