"""The errors that scripts catch."""

import json

import numpy as np
import torch
from tianshou.data import Batch, to_torch, to_torch_as


def of(function):
    try:
        function()
        return "none"
    except Exception as error:
        return next(t.__name__ for t in type(error).__mro__ if t.__module__ == "builtins")


def add_in_place(batch, other):
    batch += other


batch = Batch(a=np.arange(3), b=Batch(c=np.zeros((3, 2))))
print(
    json.dumps(
        {
            "row of nothing": of(lambda: Batch()[0]),
            "row too far": of(lambda: batch[9]),
            "no field": of(lambda: batch["z"]),
            "no attribute": of(lambda: batch.z),
            "length of a number": of(lambda: len(Batch(a=1))),
            "length of nothing": of(lambda: len(Batch())),
            "keys": of(lambda: Batch({1: 2})),
            "set to array": of(lambda: batch.__setitem__(0, np.zeros(1))),
            "set new field": of(lambda: batch.__setitem__(0, {"z": 1})),
            "cat numbers": of(lambda: Batch.cat([Batch(a=1), Batch(a=2)])),
            "cat lists": of(lambda: Batch.cat([[1], [2]])),
            "stack lists": of(lambda: Batch.stack([[1], [2]])),
            "stack partial on another axis": of(lambda: Batch.stack([Batch(a=[1]), Batch(b=[1])], axis=1)),
            "split into nothing": of(lambda: list(batch.split(0))),
            "add text": of(lambda: batch + "x"),
            "add in place": of(lambda: add_in_place(batch, [1])),
            "multiply text": of(lambda: batch * "x"),
            "multiply a batch": of(lambda: batch * batch),
            "divide a list": of(lambda: batch / [2]),
            "torch of text": of(lambda: to_torch("x")),
            "torch of objects": of(lambda: to_torch({"a": np.array([None, 1])})),
            "torch as array": of(lambda: to_torch_as(1, np.zeros(1))),
            "update a list": of(lambda: batch.update([1])),
            "pop": of(lambda: batch.pop("z")),
        }
    )
)
