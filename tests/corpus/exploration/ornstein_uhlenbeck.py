"""Ornstein-Uhlenbeck noise without randomness, and its start."""

import json

import numpy as np
from tianshou.exploration import OUNoise

pull = OUNoise(mu=1.0, sigma=0.0, theta=0.5, dt=0.1, x0=np.zeros(2))
path = [np.asarray(pull((2,))).tolist() for _ in range(4)]
pull.reset()
again = np.asarray(pull((2,))).tolist()
other = np.asarray(pull((2,), mu=-1.0)).tolist()
wide = OUNoise(sigma=0.2)
steps = np.stack([wide((5000,)) for _ in range(2)])
print(
    json.dumps(
        {
            "path": path,
            "again": again,
            "other": other,
            "first": round(float(steps[0].std()), 2),
            "goes on": bool(np.corrcoef(steps)[0, 1] > 0.5),
        }
    )
)
