"""A segment tree alone: sums, ranges, the leaf of a mass."""

import json

import numpy as np
from tianshou.data import SegmentTree

tree = SegmentTree(6)
tree[np.arange(6)] = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
tree[np.array([1, 1])] = np.array([7.0, 8.0])
tree[5] = 0.5
masses = np.array([0.5, 1.5, 8.9, 9.5, 12.5, 20.9, 21.2])
print(
    json.dumps(
        {
            "len": len(tree),
            "total": float(tree.reduce()),
            "ranges": [float(tree.reduce(0, 3)), float(tree.reduce(2, -1)), float(tree.reduce(1, 5))],
            "leaf": [float(tree[0]), np.asarray(tree[np.array([0, 1, 5])]).tolist()],
            "find": np.asarray(tree.get_prefix_sum_idx(masses)).tolist(),
            "one": int(tree.get_prefix_sum_idx(0.5)),
        }
    )
)
