"""Observations that are objects: words, graphs, lists of several lengths."""

import json

import numpy as np
from tianshou.data import Batch, ReplayBuffer, VectorReplayBuffer


class Graph:
    def __init__(self, edges):
        self.edges = edges


words = ReplayBuffer(3)
for t in range(4):
    words.add(Batch(obs="o%d" % t, act=0, rew=0.0, terminated=False, truncated=False, obs_next="o%d" % (t + 1), info={}))
graphs = ReplayBuffer(4)
for t in range(3):
    graphs.add(Batch(obs={"graph": Graph(list(range(t))), "node": t}, act=0, rew=0.0, terminated=t == 1, truncated=False, obs_next={"graph": Graph([9] * t), "node": t + 1}, info={}))
batch, index = graphs.sample(0)
vector = VectorReplayBuffer(4, 2)
lists = np.empty(2, dtype=object)
lists[:] = [[1], [2, 3]]
vector.add(Batch(obs=lists, act=np.zeros(2), rew=np.zeros(2), terminated=np.zeros(2, bool), truncated=np.zeros(2, bool), obs_next=lists))
print(
    json.dumps(
        {
            "words": [list(words.obs), list(words[[0, 1, 2]].obs_next), words.obs.dtype.kind],
            "graphs": [[g.edges for g in batch.obs.graph], [g.edges for g in batch.obs_next.graph], batch.obs.node.tolist()],
            "lists": [vector.obs[0], vector.obs[2]],
            "unused": vector.obs[1],
        }
    )
)
