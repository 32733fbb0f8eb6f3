"""Noise, running statistics, moving averages: utils and exploration."""

import json

import numpy as np
from tianshou.exploration import GaussianNoise, OUNoise
from tianshou.utils import MovAvg, RunningMeanStd
from tianshou.data import SequenceSummaryStats

moving = MovAvg(size=3)
averages = [float(moving.add(x)) for x in (1.0, 2.0, 6.0, 10.0)]
stats = RunningMeanStd()
stats.update(np.array([[1.0, 2.0], [3.0, 6.0]]))
stats.update(np.array([[5.0, 10.0]]))
noise = OUNoise(sigma=0.0, mu=1.0, theta=0.5, dt=1.0)
summary = SequenceSummaryStats.from_sequence([1.0, 2.0, 6.0])
print(
    json.dumps(
        {
            "moving": averages + [float(moving.mean()), float(moving.std())],
            "running": [np.asarray(stats.mean).tolist(), np.asarray(stats.var).tolist(), stats.norm(np.array([5.0, 10.0])).tolist()],
            "gaussian": list(GaussianNoise(mu=2.0, sigma=0.0)((2, 2)).ravel()),
            "ou": [float(noise((1,))[0]) for _ in range(3)],
            "summary": [summary.mean, summary.std, summary.max, summary.min],
        }
    )
)
