"""Keys of the user's own beside the reserved ones."""

import json

import numpy as np
from tianshou.data import Batch, ReplayBuffer

buffer = ReplayBuffer(4)
for t in range(6):
    buffer.add(
        Batch(
            obs=t, act=t, rew=1.0, terminated=t == 2, truncated=False, obs_next=t + 1, info={},
            cost=t * 0.5, agent=Batch(id=t % 2, name="n%d" % t), policy=Batch(hidden=np.full(2, t)),
        )
    )
batch, index = buffer.sample(0)
print(
    json.dumps(
        {
            "keys": sorted(batch.keys()),
            "cost": batch.cost.tolist(),
            "agent": [batch.agent.id.tolist(), list(batch.agent.name)],
            "policy": batch.policy.hidden.tolist(),
            "column": buffer.cost.tolist(),
            "row": [float(buffer[1].cost), buffer[1].agent.name],
        }
    )
)
