"""Rows of nested batches, also empty ones: reading, writing, emptying."""

import json

import numpy as np
import torch
from tianshou.data import Batch

data = Batch(obs=Batch(cam=np.arange(12).reshape(3, 2, 2), pos=np.arange(3.0)), act=torch.arange(3), info=Batch(), note=np.array(["a", None, 3]))
row = data[1]
data[0] = Batch.empty(data[2])
data[2] = {"act": torch.tensor(9), "note": "set"}
part = data[[True, False, True]]
part.obs.pos[:] = 7
print(
    json.dumps(
        {
            "row": [row.obs.cam.tolist(), float(row.obs.pos), int(row.act), row.info.is_empty(), row.note],
            "emptied": [data.obs.pos.tolist(), data.act.tolist(), [str(note) for note in data.note]],
            "cam": data.obs.cam.tolist(),
            "part": [len(part), part.obs.pos.tolist()],
            "kept": data.obs.pos.tolist(),
            "shape": data.shape,
            "len": len(data),
            "last": [data[-1:].obs.cam.shape, data[::2].act.tolist(), data[None].obs.pos.shape, data[...].obs.cam.shape],
            "empty_": data.empty_(slice(0, 2)).obs.pos.tolist(),
        }
    )
)
