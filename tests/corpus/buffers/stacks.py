"""Frame stacks of several keys, of dicts, and sample_avail."""

import json

import numpy as np
from tianshou.data import Batch, ReplayBuffer

buffer = ReplayBuffer(size=9, stack_num=4, ignore_obs_next=True)
for i in range(16):
    done = i % 5 == 0
    buffer.add(Batch(obs={"index": i, "deep": np.full(2, i)}, act=0, rew=0, terminated=done, truncated=False, obs_next={"index": i + 1, "deep": np.full(2, i + 1)}, info={}))
indices = np.arange(len(buffer))
avail = ReplayBuffer(size=8, stack_num=3, sample_avail=True)
for i in range(11):
    avail.add(Batch(obs=i, act=i, rew=1.0, terminated=i % 4 == 3, truncated=False, obs_next=i + 1, info={"i": i}))
print(
    json.dumps(
        {
            "index": buffer.get(indices, "obs").index.tolist(),
            "deep": buffer.get(indices, "obs").deep[:, :, 0].tolist(),
            "next": buffer[indices[~buffer.done]].obs_next.index.tolist(),
            "act": buffer[indices].act.tolist(),
            "avail": sorted(avail.sample_indices(0).tolist()),
            "drawn": sorted({int(i) for i in avail.sample_indices(300)}),
            "stack": avail.get([0, 1], "obs", stack_num=2).tolist(),
        }
    )
)
