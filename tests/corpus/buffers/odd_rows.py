"""Rows as users write them: integers as flags, keys of their own, objects, infos that change."""

import json

import numpy as np
from tianshou.data import Batch, ReplayBuffer


class Thing:
    def __init__(self, n):
        self.n = n


buffer = ReplayBuffer(8)
for t in range(5):
    info = {"t": t, "nested": {"x": np.ones(2) * t}}
    if t > 2:
        info["late"] = 7
    buffer.add(
        Batch(
            obs=Thing(t),
            act=np.array([t, -t]),
            rew=t,
            terminated=int(t == 4),
            truncated=0,
            obs_next=Thing(t + 1),
            info=info,
            policy=Batch(logit=np.array([0.5 * t])),
            mine=t * 1.5,
        )
    )
rows, _ = buffer.sample(0)
print(
    json.dumps(
        {
            "obs": [o.n for o in rows.obs],
            "act": rows.act.tolist(),
            "rew": [rows.rew.tolist(), str(rows.rew.dtype)],
            "done": rows.done.astype(bool).tolist(),
            "x": rows.info.nested.x.tolist(),
            "late": np.asarray(rows.info.late).tolist(),
            "policy": rows.policy.logit.ravel().tolist(),
            "mine": buffer[:].mine.tolist(),
            "next": [buffer[1].obs_next.n, buffer.get(2, "obs").n],
        }
    )
)
