"""A batch as a dict: keys, items, get, pop, update, in, del."""

import json

import numpy as np
from tianshou.data import Batch

batch = Batch({"b": 1, "a": {"x": [1, 2]}}, c="z")
seen = {key: type(value).__name__ for key, value in batch.items()}
default = batch.get("missing", 5)
popped = batch.pop("c"), batch.pop("missing", None)
batch.update({"d": [1.0]}, e=None)
batch["f"] = {"g": 3}
batch.__dict__.pop("b")
copy = Batch(batch)
copy.a.x[0] = 9
deep = Batch(batch, copy=True)
deep.a.x[0] = 100
plain = batch.a.__getstate__()
print(
    json.dumps(
        {
            "seen": seen,
            "default": default,
            "popped": popped,
            "keys": sorted(batch.keys()),
            "in": ["f" in batch, "b" in batch, "g" in batch.f],
            "none": batch.e is None,
            "shared": batch.a.x.tolist(),
            "state": {key: value.tolist() for key, value in plain.items()},
            "values": len(list(batch.values())),
        }
    )
)
