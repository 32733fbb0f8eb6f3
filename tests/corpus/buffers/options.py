"""sample_avail, ignore_obs_next, save_only_last_obs, and stack_num changed later."""

import json

import numpy as np
from tianshou.data import Batch, ReplayBuffer


def filled(**options):
    buffer = ReplayBuffer(9, **options)
    for t in range(9):
        frames = np.stack([np.full(2, max(t - 1, 0)), np.full(2, t)])
        following = np.stack([np.full(2, t), np.full(2, t + 1)])
        obs, obs_next = (frames, following) if options.get("save_only_last_obs") else (frames[-1], following[-1])
        buffer.add(Batch(obs=obs, act=t, rew=0.0, terminated=t in (3, 7), truncated=False, obs_next=obs_next, info={}))
    return buffer


avail = filled(stack_num=3, sample_avail=True)
last = filled(stack_num=2, save_only_last_obs=True, ignore_obs_next=True)
plain = filled()
plain.stack_num = 2
print(
    json.dumps(
        {
            "available": sorted(avail.sample_indices(0).tolist()),
            "drawn": bool(set(avail.sample_indices(200).tolist()) <= {2, 3, 6, 7}),
            "last": [list(last.obs.shape), last.get(np.array([0, 1, 4, 5]), "obs")[:, :, 0].tolist()],
            "later": plain.get(np.array([0, 4, 8]), "obs", stack_num=3)[:, :, 0].tolist(),
            "frames": plain[np.array([5])].obs[0, :, 0].tolist(),
            "options": sorted(avail.options),
        }
    )
)
