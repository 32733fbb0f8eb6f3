"""A vector buffer: rings of unequal fill, buffer_ids, episode returns."""

import json

import numpy as np
from tianshou.data import Batch, VectorReplayBuffer

buffer = VectorReplayBuffer(total_size=10, buffer_num=3)
out = []
for t in range(6):
    ids = [0, 2] if t % 2 else [0, 1, 2]
    n = len(ids)
    batch = Batch(
        obs=np.full((n, 2), t),
        act=np.arange(n),
        rew=np.arange(n) + 1.0,
        terminated=np.array([t == 3] * n),
        truncated=np.array([t == 5] * n),
        obs_next=np.full((n, 2), t + 1),
        info=Batch(ids=np.array(ids)),
    )
    out.append([x.tolist() for x in buffer.add(batch, buffer_ids=ids)])
rows, indices = buffer.sample(0)
print(
    json.dumps(
        {
            "added": out,
            "sizes": [len(buffer), buffer.maxsize, buffer.buffer_num],
            "indices": indices.tolist(),
            "obs": rows.obs[:, 0].tolist(),
            "ids": rows.info.ids.tolist(),
            "prev": buffer.prev(indices).tolist(),
            "next": buffer.next(indices).tolist(),
            "unfinished": buffer.unfinished_index().tolist(),
            "last": buffer.last_index.tolist(),
            "parts": [len(b) for b in buffer.buffers],
        }
    )
)
