"""Noise of the user's own, and what a policy does with it."""

import json

import numpy as np
from tianshou.exploration import BaseNoise


class Falling(BaseNoise):
    def __init__(self):
        self.scale = 1.0

    def __call__(self, size):
        self.scale /= 2
        return np.full(size, self.scale)

    def reset(self):
        self.scale = 1.0


noise = Falling()
values = [noise((2,)).tolist() for _ in range(3)]
noise.reset()
try:
    BaseNoise()
    abstract = False
except TypeError:
    abstract = True
print(json.dumps({"values": values, "reset": noise((1,)).tolist(), "abstract": abstract}))
