"""cat, stack, split, update, arithmetic, indexing and assignment."""

import json

import numpy as np
from tianshou.data import Batch

a = Batch(x=np.arange(4), y=Batch(z=np.ones((4, 2))))
b = Batch(x=np.arange(4) * 10, y=Batch(z=np.zeros((4, 2))))
cat = Batch.cat([a, b])
stack = Batch.stack([a, b])
stack1 = Batch.stack([a, b], axis=1)
mixed = Batch.cat([Batch(a=np.ones(2), common=np.zeros(2)), Batch(b=np.ones(3), common=np.zeros(3))])
a2 = Batch(x=np.arange(4), y=Batch(z=np.ones((4, 2))))
a2[1] = Batch(x=100, y=Batch(z=np.array([5.0, 6.0])))
a2[2:] = {"x": np.array([7, 8]), "y": {"z": np.full((2, 2), 9.0)}}
a2.update(new=np.zeros(4))
parts = [p.x.tolist() for p in cat.split(3, shuffle=False)]
merged = [p.x.tolist() for p in cat.split(3, shuffle=False, merge_last=True)]
total = Batch(v=np.arange(3.0)) + 1
total *= 2
print(
    json.dumps(
        {
            "cat": [cat.x.tolist(), list(cat.y.z.shape)],
            "stack": [stack.x.tolist(), list(stack1.y.z.shape)],
            "mixed": {k: mixed[k].tolist() for k in sorted(mixed.keys())},
            "set": [a2.x.tolist(), a2.y.z.tolist(), sorted(a2.keys())],
            "split": [parts, merged],
            "sum": (total / 2).v.tolist(),
            "index": [a[[0, -1]].x.tolist(), a[1:3].y.z.shape, int(a[2].x), a[..., ].x.tolist()],
            "rows": [int(row.x) for row in a],
            "pop": [cat.pop("x").tolist()[:2], sorted(cat.keys())],
            "len": len(stack),
        }
    )
)
