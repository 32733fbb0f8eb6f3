"""Lists, tuples and arrays of dicts and batches."""

import json

import numpy as np
from tianshou.data import Batch

infos = np.array([{"env_id": i, "reason": "x"} for i in range(3)])
of_array = Batch(info=infos)
of_list = Batch([{"a": i, "n": {"b": i * 2.0}} for i in range(2)])
of_tuple = Batch(steps=({"a": [1, 2]}, {"a": [3, 4]}))
again = Batch(list(of_list))
print(
    json.dumps(
        {
            "array": [of_array.info.env_id.tolist(), list(of_array.info.reason), len(of_array)],
            "list": [of_list.a.tolist(), of_list.n.b.tolist()],
            "tuple": of_tuple.steps.a.tolist(),
            "again": [again.a.tolist(), again.n.b.tolist()],
            "empty": [Batch([]).is_empty(), Batch(()).is_empty(), Batch(a=[]).a.shape],
            "split": sorted(int(part.a[0]) for part in of_list.split(1)),
        }
    )
)
