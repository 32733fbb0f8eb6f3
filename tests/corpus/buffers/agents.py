"""Rewards of several agents in one buffer."""

import json

import numpy as np
from tianshou.data import Batch, ReplayBuffer, VectorReplayBuffer

buffer = ReplayBuffer(6)
ends = []
for t in range(6):
    _, ret, length, start = buffer.add(Batch(obs=t, act=t, rew=np.array([1.0, -t]), terminated=t % 3 == 2, truncated=False, obs_next=t + 1, info={}))
    ends.append([np.asarray(ret).tolist(), np.asarray(length).tolist(), np.asarray(start).tolist()])
vector = VectorReplayBuffer(8, 2)
for t in range(3):
    ptr, ret, length, start = vector.add(Batch(obs=np.zeros(2), act=np.zeros(2), rew=np.array([[1.0, 2.0], [3.0, 4.0]]), terminated=np.array([t == 2, False]), truncated=np.zeros(2, bool), obs_next=np.ones(2)))
print(
    json.dumps(
        {
            "ends": ends[2:],
            "rew": buffer.rew.tolist(),
            "vector": [ret.tolist(), length.tolist(), ptr.tolist(), start.tolist()],
        }
    )
)
