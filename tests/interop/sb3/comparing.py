"""Comparison of two buffers."""

from typing import Any

import numpy as np
import torch as th


def assert_same(ours: Any, theirs: Any, where: str = "") -> None:
    """Asserts that values are equal bit for bit, with equal types, dtypes and shapes."""
    assert type(ours) is type(theirs), where
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys(), where
        for key in theirs:
            assert_same(ours[key], theirs[key], f"{where}.{key}")
    elif isinstance(theirs, tuple):
        for name, one, other in zip(theirs._fields, ours, theirs, strict=True):
            assert_same(one, other, f"{where}.{name}")
    elif isinstance(theirs, th.Tensor):
        assert (ours.dtype, ours.shape, ours.device) == (theirs.dtype, theirs.shape, theirs.device), where
        assert th.equal(ours, theirs), where
    elif isinstance(theirs, np.ndarray):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), where
        np.testing.assert_array_equal(ours, theirs, where)
    else:
        assert ours == theirs, where


def sampled_alike(ours: Any, theirs: Any, batch_size: int, seed: int, env: Any = None) -> None:
    """The same samples from the same random numbers, and as many of those used up."""
    after = []
    samples = []
    for buffer in (ours, theirs):
        np.random.seed(seed)
        samples.append(buffer.sample(batch_size, env=env))
        after.append(np.random.randint(2**31))
    assert_same(*samples)
    assert after[0] == after[1]
