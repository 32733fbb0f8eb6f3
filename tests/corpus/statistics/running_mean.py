"""Running means and deviations of observations."""

import json

import numpy as np
import torch
from tianshou.utils import RunningMeanStd

rms = RunningMeanStd()
before = np.asarray(rms.norm(np.array([1.0, 20.0]))).tolist()
for k in range(3):
    rms.update(np.arange(12.0).reshape(4, 3) * (k + 1))
print(
    json.dumps(
        {
            "before": before,
            "mean": np.asarray(rms.mean).tolist(),
            "var": np.asarray(rms.var).tolist(),
            "count": int(rms.count),
            "norm": np.asarray(rms.norm(np.array([[0.0, 50.0, 1000.0]]))).tolist(),
            "tensors": [rms.norm(torch.tensor([[0.0, 50.0, 1000.0]])).tolist(), type(rms.norm(torch.zeros(2, 3))).__name__],
            "unclipped": np.asarray(RunningMeanStd(clip_max=None).norm(np.array([100.0]))).round(3).tolist(),
        }
    )
)
