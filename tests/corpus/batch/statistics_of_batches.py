"""Means over batches, as loops over mini-batches make them."""

import json

import numpy as np
import torch
from tianshou.data import Batch

losses = [Batch(loss=1.0 * i, parts=Batch(actor=2.0 * i, critic=np.array([i, i + 1.0]))) for i in range(4)]
total = losses[0]
for batch in losses[1:]:
    total = total + batch
mean = total / len(losses)
scaled = Batch(a=torch.ones(2), b=np.array([1.0, 2.0]), c=Batch()) * 3 + 1
scaled /= 2
print(
    json.dumps(
        {
            "mean": [float(mean.loss), float(mean.parts.actor), mean.parts.critic.tolist()],
            "numpy": np.mean([float(b.loss) for b in losses]),
            "scaled": [scaled.a.tolist(), scaled.b.tolist(), scaled.c.is_empty()],
            "of rows": float(np.mean(Batch(a=np.arange(4.0))).a),
        }
    )
)
