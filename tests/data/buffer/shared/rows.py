"""Rows that tell which they are: every value of row ``number`` of a ring follows from the two."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlfast.data import Batch

WIDTH = 40


def row(number: int, ring: int = 0, *, terminated: bool = False, truncated: bool = False) -> Batch:
    """One row, without a leading axis."""
    obs = {"a": np.full(WIDTH, number, np.int64), "b": np.full((2, 3), number + ring, np.float32)}
    after = {"a": np.full(WIDTH, number + 1, np.int64), "b": np.full((2, 3), number + ring + 1, np.float32)}
    flags = {"terminated": terminated, "truncated": truncated}
    return Batch(obs=obs, act=np.array([number] * 3), rew=float(number), obs_next=after, info={"ring": ring}, **flags)


def rows(numbers: list[int], rings: list[int], **flags: bool) -> Batch:
    """A row for each ring."""
    return Batch.stack([row(number, ring, **flags) for number, ring in zip(numbers, rings, strict=True)])


def check_whole(batch: Any) -> NDArray[np.int64]:
    """Asserts that no row is torn, and returns the numbers of the rows."""
    numbers = batch.rew.astype(np.int64)
    ring = batch.info.ring
    assert (batch.obs.a == numbers[:, None]).all(), "a torn row"
    assert (batch.obs_next.a == numbers[:, None] + 1).all(), "a torn row"
    assert (batch.obs.b == (numbers + ring)[:, None, None]).all(), "a torn row"
    assert (batch.obs_next.b == (numbers + ring + 1)[:, None, None]).all(), "a torn row"
    assert (batch.act == numbers[:, None]).all(), "a torn row"
    return numbers
