"""Tensors and arrays: to_torch, to_numpy, to_torch_as, in place and not."""

import json

import numpy as np
import torch
from tianshou.data import Batch, to_numpy, to_torch, to_torch_as

batch = Batch(a=np.arange(3), b=torch.ones(2), c=Batch(d=np.float32(1.5)), e={"f": [np.zeros(2), np.ones(2)]})
batch.to_torch(dtype=torch.float32)
kinds = [str(batch.a.dtype), str(batch.b.dtype), str(batch.e.f.dtype), type(batch.c.d).__name__]
batch.to_numpy()
back = [str(batch.a.dtype), type(batch.b).__name__, batch.e.f.tolist()]
nested = to_torch({"x": np.arange(2), "y": [1.0, 2.0], "z": Batch(w=3)}, dtype=torch.float64)
print(
    json.dumps(
        {
            "kinds": kinds,
            "back": back,
            "nested": [str(nested["x"].dtype), type(nested).__name__],
            "as": str(to_torch_as(np.arange(3), torch.zeros(1, dtype=torch.float16)).dtype),
            "numpy": [to_numpy(torch.tensor([1, 2])).tolist(), to_numpy({"a": torch.ones(1)})["a"].tolist(), to_numpy([1, 2]).tolist() if isinstance(to_numpy([1, 2]), np.ndarray) else [1, 2]],
            "list": [list(t.shape) for t in [to_torch([np.zeros((2, 3)), np.ones((2, 3))])]],
        }
    )
)
