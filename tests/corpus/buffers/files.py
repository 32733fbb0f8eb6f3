"""Buffers through pickle and HDF5, with their episodes; from_data."""

import json

import numpy as np
import os
import pickle
import tempfile

import h5py
from tianshou.data import Batch, PrioritizedVectorReplayBuffer, ReplayBuffer, VectorReplayBuffer

out = {}
folder = tempfile.mkdtemp()
for kind, args, options in (
    (ReplayBuffer, (10,), {"stack_num": 2}),
    (VectorReplayBuffer, (12, 3), {}),
    (PrioritizedVectorReplayBuffer, (12, 3), {"alpha": 0.5, "beta": 0.5}),
):
    buffer = kind(*args, **options)
    for t in range(7):
        row = {"obs": {"a": t, "b": np.ones(3) * t}, "act": t, "rew": t / 2, "terminated": t == 3, "truncated": t == 5, "obs_next": {"a": t + 1, "b": np.ones(3)}, "info": {"k": t}}
        row = Batch(row) if kind is ReplayBuffer else Batch([row, row])
        buffer.add(row) if kind is ReplayBuffer else buffer.add(row, buffer_ids=[0, 2])
    path = os.path.join(folder, kind.__name__ + ".hdf5")
    buffer.save_hdf5(path)
    copies = [pickle.loads(pickle.dumps(buffer)), kind.load_hdf5(path)]
    result = []
    for copy in copies:
        rows, indices = copy.sample(0)
        result.append([len(copy), indices.tolist(), rows.obs.a.tolist(), rows.info.k.tolist(), copy.prev(indices).tolist(), copy.unfinished_index().tolist()])
    out[kind.__name__] = result
with h5py.File(os.path.join(folder, "d.hdf5"), "w") as f:
    n = 6
    data = {
        "obs": f.create_dataset("obs", data=np.arange(n * 2).reshape(n, 2)),
        "act": f.create_dataset("act", data=np.arange(n)),
        "rew": f.create_dataset("rew", data=np.ones(n)),
        "terminated": f.create_dataset("terminated", data=np.array([0, 0, 1, 0, 0, 0], bool)),
        "truncated": f.create_dataset("truncated", data=np.zeros(n, bool)),
        "done": f.create_dataset("done", data=np.array([0, 0, 1, 0, 0, 0], bool)),
        "obs_next": f.create_dataset("obs_next", data=np.arange(n * 2).reshape(n, 2) + 2),
    }
    made = ReplayBuffer.from_data(**data)
    out["data"] = [len(made), made[:].obs.tolist()]
print(json.dumps(out))
