"""Batches from all that people build them of."""

import json

import numpy as np
import torch
from tianshou.data import Batch

a = Batch(a=1, b=[1.0, 2.0], c={"d": np.arange(3), "e": "word"}, f=None)
b = Batch([{"x": 1, "y": {"z": [1, 2]}}, {"x": 2, "y": {"z": [3, 4]}}])
c = Batch({"t": torch.arange(3), "l": [torch.zeros(2), torch.ones(2)]})
d = Batch(np.array([{"k": 1}, {"k": 2}], dtype=object))
e = Batch(a, extra=5)
print(
    json.dumps(
        {
            "a": [int(a.a), a.b.tolist(), a.c.d.tolist(), str(a.c.e), a.f is None or len(a.f) == 0 if not isinstance(a.f, np.ndarray) else a.f.tolist()],
            "b": [b.x.tolist(), b.y.z.tolist(), len(b), list(b.shape)],
            "c": [type(c.t).__name__, list(c.l.shape)],
            "d": d.k.tolist(),
            "e": [sorted(e.keys()), int(e.extra)],
            "empty": [Batch().is_empty(), Batch(a=Batch()).is_empty(), Batch(a=Batch()).is_empty(recurse=True), len(Batch(a=[1, 2], b=Batch()))],
            "in": ["a" in a, "zz" in a, a.get("zz", 3)],
        }
    )
)
