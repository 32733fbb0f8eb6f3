"""Batches that lack fields of others, put together."""

import json

import numpy as np
from tianshou.data import Batch

one = Batch(obs=np.ones((2, 3)), info=Batch(reason=np.array(["a", "b"], dtype=object)), policy=Batch())
two = Batch(obs=np.zeros((1, 3)), extra=Batch(value=np.array([5.0])), policy=Batch())
cat = Batch.cat([one, two])
stack = Batch.stack([Batch(a=1, n=Batch(b=2)), Batch(a=3), Batch(a=4, c="text")])
grown = Batch()
for i in range(3):
    grown.cat_(Batch(step=[i], value=[i / 2]))
with_empty = Batch.cat([Batch(), one, Batch(), Batch(obs=np.zeros((0, 3)))])
print(
    json.dumps(
        {
            "cat": [cat.obs.shape, list(cat.info.reason), cat.extra.value.tolist(), cat.policy.is_empty(), sorted(cat.keys())],
            "stack": [stack.a.tolist(), stack.n.b.tolist(), list(stack.c)],
            "grown": [grown.step.tolist(), grown.value.tolist()],
            "empty": with_empty.obs.shape,
            "nothing": [Batch.cat([]).is_empty(), Batch.stack([Batch(), {}]).is_empty()],
        }
    )
)
