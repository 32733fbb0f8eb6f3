"""Buffers of several kinds saved and loaded again."""

import json
import os
import tempfile

import numpy as np
from tianshou.data import Batch, PrioritizedReplayBuffer, ReplayBuffer, VectorReplayBuffer

here = os.getcwd()
folder = tempfile.TemporaryDirectory()
os.chdir(folder.name)

answers = {}
for name, buffer in {
    "plain": ReplayBuffer(5),
    "stacked": ReplayBuffer(6, stack_num=2, ignore_obs_next=True),
    "prioritized": PrioritizedReplayBuffer(6, alpha=0.6, beta=0.4),
}.items():
    for t in range(7):
        buffer.add(Batch(obs=np.full(2, t, np.float32), act=t, rew=t / 2, terminated=t == 3, truncated=t == 5, obs_next=np.full(2, t + 1, np.float32), info={"t": t}))
    buffer.save_hdf5(name + ".hdf5", compression="gzip")
    loaded = type(buffer).load_hdf5(name + ".hdf5")
    index = np.arange(len(loaded))
    answers[name] = [int(len(loaded)), loaded.obs.tolist(), loaded[index].obs.shape, loaded[index[~loaded.done]].obs_next[:, -1].tolist(), loaded.info.t.tolist(), loaded.done.tolist(), loaded.next(index).tolist()]
vector = VectorReplayBuffer(8, buffer_num=2)
for t in range(3):
    vector.add(Batch(obs=np.array([t, 10 + t]), act=np.zeros(2), rew=np.ones(2), terminated=np.array([t == 1, False]), truncated=np.zeros(2, bool), obs_next=np.array([t + 1, 11 + t])))
vector.save_hdf5("vector.hdf5")
loaded = VectorReplayBuffer.load_hdf5("vector.hdf5")
answers["vector"] = [int(len(loaded)), int(loaded.buffer_num), loaded.obs.tolist(), [int(len(b)) for b in loaded.buffers], loaded.sample_indices(0).tolist()]
print(json.dumps(answers))
os.chdir(here)
folder.cleanup()
