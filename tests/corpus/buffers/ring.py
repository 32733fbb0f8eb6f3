"""A plain buffer that wraps around: what add returns, prev and next, unfinished episodes, slices."""

import json

import numpy as np
from tianshou.data import Batch, ReplayBuffer

buffer = ReplayBuffer(size=6)
added = []
for t in range(9):
    got = buffer.add(Batch(obs=t, act=t, rew=float(t), terminated=t % 4 == 3, truncated=False, obs_next=t + 1, info={"t": t}))
    added.append([np.asarray(x).ravel().tolist() for x in got])
rows, indices = buffer.sample(0)
print(
    json.dumps(
        {
            "added": added,
            "len": len(buffer),
            "indices": indices.tolist(),
            "obs": rows.obs.tolist(),
            "prev": buffer.prev(np.arange(6)).tolist(),
            "next": buffer.next(np.arange(6)).tolist(),
            "unfinished": buffer.unfinished_index().tolist(),
            "last": buffer.last_index.tolist(),
            "slice": buffer[1:3].obs.tolist(),
            "all": buffer[:].obs.tolist(),
            "one": [int(buffer[2].obs), float(buffer[2].rew), int(buffer[2].info.t)],
            "list": buffer[[0, 5]].act.tolist(),
            "columns": [str(buffer.rew.dtype), str(buffer.done.dtype), buffer.obs.tolist()],
            "full": buffer.maxsize,
        }
    )
)
