"""The static methods that estimate returns, called on the class with flags and rewards of several types."""

import json

import numpy as np
import torch
from tianshou.data import Batch, ReplayBuffer
from tianshou.policy import BasePolicy

out = {}
for name, flags in {
    "bool": np.array([0, 0, 1, 0, 0, 1, 0, 0], bool),
    "int": np.array([0, 0, 1, 0, 0, 1, 0, 0]),
    "float": np.array([0, 0, 1, 0, 0, 1, 0, 0], np.float32),
}.items():
    buffer = ReplayBuffer(20)
    batch = Batch(terminated=flags, truncated=np.zeros(8, flags.dtype), rew=np.arange(8.0), info=Batch())
    for row in batch:
        row.obs = row.act = row.obs_next = 0
        buffer.add(row)
    returns, advantage = BasePolicy.compute_episodic_return(batch, buffer, buffer.sample_indices(0), None, None, 0.9, 1.0)
    values = np.linspace(0, 1, 8)
    second = BasePolicy.compute_episodic_return(batch, buffer, buffer.sample_indices(0), values, None, gamma=0.9, gae_lambda=0.8)
    third = BasePolicy.compute_episodic_return(batch, buffer, np.arange(8), torch.tensor(values), torch.tensor(values) / 2)
    out[name] = [x.tolist() for x in (returns, advantage, second[0], *third)]
    out[name].append(BasePolicy.value_mask(buffer, np.arange(8)).tolist())


def target(buffer, indices):
    return torch.as_tensor(indices, dtype=torch.float32)


buffer = ReplayBuffer(10)
for t in range(12):
    buffer.add(Batch(obs=t, act=0, rew=float(t), terminated=t == 3, truncated=t == 6, obs_next=t + 1, info={}))
batch, indices = buffer.sample(0)
for n in (1, 2, 5):
    got = BasePolicy.compute_nstep_return(batch, buffer, indices, target, gamma=0.5, n_step=n)
    out[f"n={n}"] = got.returns.flatten().tolist()
print(json.dumps(out))
