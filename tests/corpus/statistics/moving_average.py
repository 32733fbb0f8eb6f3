"""Moving averages of losses."""

import json

import numpy as np
import torch
from tianshou.utils import MovAvg

average = MovAvg(size=4)
seen = [average.add(5), average.add(float("inf")), average.add([6, 7, 8]), average.add(np.array([9.0, 1.0])), average.add(torch.tensor([3.0]))]
endless = MovAvg(-1)
print(
    json.dumps(
        {
            "seen": [float(x) for x in seen],
            "now": [average.get(), average.mean(), average.std()],
            "cache": [float(x) for x in average.cache],
            "new": [MovAvg().get(), MovAvg().std(), MovAvg().size],
            "all": [MovAvg(size=0).add(list(range(500))), endless.add(list(range(500)))],
            "newest": [float(x) for x in average.cache[-2:]],
        }
    )
)
