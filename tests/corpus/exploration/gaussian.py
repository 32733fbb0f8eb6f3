"""Gaussian noise: its shape and moments."""

import json

import numpy as np
from tianshou.exploration import GaussianNoise

noise = GaussianNoise(mu=1.0, sigma=0.5)
drawn = noise((20000,))
still = GaussianNoise(sigma=0.0)
try:
    GaussianNoise(sigma=-1.0)
    refused = "none"
except (AssertionError, ValueError) as error:
    refused = "refused"
print(
    json.dumps(
        {
            "shape": list(noise((3, 2)).shape),
            "mean": round(float(drawn.mean()), 1),
            "std": round(float(drawn.std()), 1),
            "still": still((4,)).tolist(),
            "reset": noise.reset() is None,
            "refused": refused,
        }
    )
)
