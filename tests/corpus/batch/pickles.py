"""Batches copied, deep-copied, pickled; strings of them; empty ones."""

import json

import numpy as np
import copy
import pickle

from tianshou.data import Batch

batch = Batch(a=np.arange(3), b=Batch(c=np.ones((3, 1)), names=np.array(["x", "y", "z"], dtype=object)))
shared, deep, loaded = copy.copy(batch), copy.deepcopy(batch), pickle.loads(pickle.dumps(batch))
batch.a[0] = 50
kept = Batch(batch, copy=True)
batch.b.c[:] = 7
empty = Batch.empty(batch, [0, 2])
print(
    json.dumps(
        {
            "values": [int(b.a[0]) for b in (deep, loaded)],
            "kept": kept.b.c.ravel().tolist(),
            "empty": [empty.a.tolist(), empty.b.c.ravel().tolist(), list(empty.b.names)],
            "repr": repr(Batch(a=1)).split("(")[0],
            "mean": float(np.mean(Batch(v=np.arange(4.0)).v)),
            "names": list(loaded.b.names),
        }
    )
)
