"""A cached buffer: episodes move to the main buffer when they are over."""

import json

import numpy as np
from tianshou.data import Batch, CachedReplayBuffer, ReplayBuffer

buffer = CachedReplayBuffer(ReplayBuffer(10), cached_buffer_num=2, max_episode_length=5)
added = []
for t in range(8):
    done = np.array([t % 3 == 2, t % 4 == 3])
    batch = Batch(obs=np.array([t, 100 + t]), act=np.zeros(2), rew=np.ones(2), terminated=done, truncated=np.zeros(2, bool), obs_next=np.array([t + 1, 101 + t]), info={})
    added.append([x.tolist() for x in buffer.add(batch, buffer_ids=[0, 1])])
rows, indices = buffer.sample(0)
print(json.dumps({"added": added, "len": len(buffer), "main": len(buffer.main_buffer), "indices": indices.tolist(), "obs": rows.obs.tolist(), "unfinished": buffer.unfinished_index().tolist()}))
