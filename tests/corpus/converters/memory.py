"""Which conversions share memory with what they were given."""

import json

import numpy as np
import torch
from tianshou.data import Batch, to_numpy, to_torch

array, tensor = np.zeros(3), torch.zeros(3)
to_torch(array)[0] = 1
to_numpy(tensor)[1] = 2
batch = Batch(a=np.zeros(2), b=torch.zeros(2))
copied = to_torch(batch)
copied.a[0] = 5
batch.to_torch()
batch.to_numpy()
batch.a[0] = 7
typed = to_torch(array, dtype=torch.float32)
typed[2] = 9
print(
    json.dumps(
        {
            "array": array.tolist(),
            "tensor": tensor.tolist(),
            "batch": batch.a.tolist(),
            "copied": copied.a.tolist(),
            "same array": to_numpy(array) is array,
            "types": [type(batch.a).__name__, type(batch.b).__name__],
        }
    )
)
