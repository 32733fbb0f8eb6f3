"""A storage that is installed and counted, columns and rows that are written, and what a run left behind put right."""

import json

import numpy as np
from tianshou.data import Batch, PrioritizedReplayBuffer, ReplayBuffer, VectorReplayBuffer

n = 6
flags = np.arange(n) % 3 == 2
columns = Batch(obs=np.arange(n) * 1.0, act=np.arange(n), rew=np.ones(n), terminated=flags, truncated=np.zeros(n, bool), done=flags, obs_next=np.arange(n) + 1.0)
full = ReplayBuffer(n, colour="red")
full.set_batch(Batch(columns, copy=True))
full._size = n
part = ReplayBuffer(n)
part.set_batch(Batch(columns, copy=True))
part._size = part._index = 4
added = part.add(Batch(obs=9.0, act=9, rew=2.0, terminated=True, truncated=False, obs_next=10.0))
full._meta["obs"] = (full.obs - full.obs.mean()) / full.obs.std()
full._meta[1] = full._meta[4]
vector = VectorReplayBuffer(6, 2)
for t in range(3):
    vector.add(Batch(obs=np.array([t, 10 + t]), act=np.zeros(2), rew=np.ones(2), terminated=np.zeros(2, bool), truncated=np.zeros(2, bool), obs_next=np.array([t + 1, 11 + t])), [-2, -1])
weighted = PrioritizedReplayBuffer(4, alpha=0.5, beta=0.4)
for t in range(3):
    weighted.add(Batch(obs=t, act=t, rew=0.0, terminated=False, truncated=False, obs_next=t + 1))
weighted.update_weight(np.array([0, 2]), 4.0)
weighted._beta = 1.0
print(
    json.dumps(
        {
            "full": [len(full), full[:].obs.tolist(), full[:].act.tolist(), full.next(np.arange(1, n)).tolist()],
            "part": [len(part), part[:].obs.tolist(), [int(x[0]) for x in added], part._indices.tolist()],
            "vector": vector.obs.tolist(),
            "weighted": [weighted.weight[np.arange(4)].tolist(), weighted._beta],
        }
    )
)
