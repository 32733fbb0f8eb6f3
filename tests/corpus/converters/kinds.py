"""to_numpy and to_torch of all that scripts give them."""

import json

import numpy as np
import torch
from tianshou.data import Batch, to_numpy, to_torch, to_torch_as


def shape(x):
    if isinstance(x, Batch):
        return {key: shape(value) for key, value in sorted(x.items())}
    return [type(x).__name__, str(x.dtype), list(x.shape)]


nested = {"a": np.zeros((2, 3), np.float32), "b": {"c": torch.ones(2, requires_grad=True), "d": 5}, "e": [1, 2], "f": True}
print(
    json.dumps(
        {
            "numpy": shape(to_numpy(nested)),
            "torch": shape(to_torch(nested, dtype=torch.float32)),
            "as": shape(to_torch_as(Batch(x=[1, 2]), torch.zeros(1, dtype=torch.float64))),
            "number": [shape(to_numpy(3)), shape(to_torch(2.5)), shape(to_torch(np.bool_(True)))],
            "list": [shape(to_numpy([torch.zeros(2), torch.zeros(2)])), shape(to_torch([np.zeros(2), np.ones(2)]))],
            "dicts": shape(to_numpy([{"a": 1}, {"a": 2}])),
            "none": to_numpy(None).dtype.kind,
            "text": to_numpy("x").tolist(),
        }
    )
)
