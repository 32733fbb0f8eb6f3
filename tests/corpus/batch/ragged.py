"""Rows of different lengths, objects and missing values as fields."""

import json

import numpy as np
import torch
from tianshou.data import Batch


def kind(make):
    try:
        value = make().a
        return [type(value).__name__, str(getattr(value, "dtype", "")), list(getattr(value, "shape", []))]
    except Exception as error:
        return type(error).__name__


fields = {
    "lists": lambda: Batch(a=[[1], [2, 3]]),
    "leading": lambda: Batch(a=[np.zeros((3, 2)), np.zeros((2, 2))]),
    "trailing": lambda: Batch(a=[np.zeros((2, 3)), np.zeros((2, 4))]),
    "nested": lambda: Batch(a=[[np.zeros(2), np.zeros(3)]] * 2),
    "tensors": lambda: Batch(a=[torch.zeros(2), torch.zeros(3)]),
    "tensor and number": lambda: Batch(a=[torch.tensor(1.0), 2.0]),
    "tensor and array": lambda: Batch(a=[torch.zeros(2), np.zeros(2)]),
    "none": lambda: Batch(a=[None, 1]),
    "strings": lambda: Batch(a=["a", "bc"]),
    "array of strings": lambda: Batch(a=np.array(["a", "bc"])),
    "set": lambda: Batch(a={1, 2}),
    "dicts": lambda: Batch(a=[{"x": 1}, {"x": 2}]).a and Batch(a=[{"x": 1}, {"x": 2}]),
}
print(json.dumps({name: kind(make) for name, make in fields.items()}))
