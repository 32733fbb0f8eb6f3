"""A prioritized buffer: weights of sampled rows, new priorities, beta."""

import json

import numpy as np
from tianshou.data import Batch, PrioritizedReplayBuffer

buffer = PrioritizedReplayBuffer(size=8, alpha=0.6, beta=0.4)
for t in range(8):
    buffer.add(Batch(obs=t, act=0, rew=1.0, terminated=False, truncated=False, obs_next=t + 1, info={}))
first = buffer.get_weight(np.arange(8)).tolist()
buffer.update_weight(np.arange(8), np.arange(1.0, 9.0))
rows, indices = buffer.sample(64)
shares = np.asarray(buffer.weight[np.arange(8)])
buffer.set_beta(1.0)
print(
    json.dumps(
        {
            "first": first,
            "tree": (shares / shares[0]).tolist(),
            "total": float(buffer.weight.reduce() / shares.sum()),
            "has": "weight" in rows,
            "largest": float(np.max(rows.weight)),
            "drawn": len(set(indices.tolist())) > 3,
            "beta": (np.asarray(buffer.get_weight(np.arange(8))) / float(np.max(buffer.get_weight(np.arange(8))))).tolist(),
            "options": [buffer._alpha, buffer._beta],
        }
    )
)
