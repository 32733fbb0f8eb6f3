"""Keys that come later than the first row."""

import json

import numpy as np
from tianshou.data import Batch, ReplayBuffer

buffer = ReplayBuffer(5)
for t in range(4):
    info = {"t": t} if t < 2 else {"t": t, "late": t * 10.0, "word": "w%d" % t}
    buffer.add(Batch(obs=t, act=0, rew=0.0, terminated=False, truncated=False, obs_next=t + 1, info=info))
print(
    json.dumps(
        {
            "late": buffer.info.late.tolist(),
            "word": list(buffer.info.word),
            "rows": buffer[np.arange(4)].info.late.tolist(),
            "first": [float(buffer[0].info.late), buffer[0].info.word],
        }
    )
)
