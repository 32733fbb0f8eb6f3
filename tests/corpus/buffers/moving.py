"""Rows of one buffer moved into another; reset; set_batch; attributes."""

import json

import numpy as np
from tianshou.data import Batch, ReplayBuffer, VectorReplayBuffer

small, large, vector = ReplayBuffer(4), ReplayBuffer(10), VectorReplayBuffer(9, 3)
for t in range(6):
    small.add(Batch(obs=t, act=t, rew=1.0, terminated=t == 3, truncated=False, obs_next=t + 1, info={}))
    row = Batch(obs=np.arange(3) + t, act=np.arange(3), rew=np.ones(3), terminated=np.zeros(3, bool), truncated=np.zeros(3, bool), obs_next=np.arange(3) + t + 1, info={})
    vector.add(row)
moved = [large.update(small).tolist(), large.update(vector).tolist()]
obs = large[:].obs.tolist()
before = len(large)
large.reset()
vector.reset(keep_statistics=True)
empty = ReplayBuffer(5)
print(json.dumps({"moved": moved, "obs": obs, "before": before, "after": [len(large), len(vector), len(empty)], "stack": [small.stack_num, small.maxsize], "names": sorted(small._reserved_keys)}))
