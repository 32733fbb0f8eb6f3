"""Arrays from pickles, whose dtypes are objects of their own and not NumPy's, are arrays as any other."""

import pickle

import numpy as np
import pytest

from rlfast import _core
from rlfast.data import Batch, PrioritizedReplayBuffer, SegmentTree
from rlfast.functional import gae


def unpickled(array):
    found = pickle.loads(pickle.dumps(array))
    assert found.dtype == array.dtype
    assert found.dtype is not array.dtype
    return found


def long_long(array):
    """The other 64-bit integer of C, which is as wide."""
    return array.astype(np.longlong) if array.dtype == np.int64 else array


@pytest.mark.parametrize("other", [unpickled, long_long])
def test_the_engine_takes_them(other):
    indices, values = other(np.array([2, 0, 2])), other(np.array([1.0, 2.0, 3.0]))
    tree = SegmentTree(4)
    tree[indices] = values
    assert tree[indices].tolist() == [3.0, 2.0, 3.0]
    assert tree.get_prefix_sum_idx(values).tolist() == [0, 0, 2]
    assert _core.step_rows(indices, 5, other(np.array([0, 1, 1]))).tolist() == [2, 5, 7]
    buffer = PrioritizedReplayBuffer(4, 0.6, 0.4)
    row = Batch(obs=values, act=indices, rew=1.0, terminated=False, truncated=False, obs_next=values)
    for _ in range(3):
        buffer.add(row)
    buffer.update_weight(indices, values)
    assert buffer[indices].obs.tolist() == [values.tolist()] * 3
    batch, drawn = buffer.sample(8)
    assert batch.obs.dtype == np.float64
    assert (batch.act == indices).all()
    assert len(drawn) == 8
    ends = np.array([False, False, True])
    wanted = gae(*[np.array([1.0, 2.0, 3.0])] * 3, ends, ends, gamma=0.5, gae_lambda=0.5)
    for got, right in zip(
        gae(values, values, values, other(ends), ends, gamma=0.5, gae_lambda=0.5), wanted, strict=True
    ):
        np.testing.assert_array_equal(got, right)


def test_big_endian_arrays_are_converted():
    tree = SegmentTree(4)
    tree[np.arange(4).astype(">i8")] = np.arange(4.0).astype(">f8")
    assert tree[np.array([2, 0]).astype(">i8")].tolist() == [2.0, 0.0]
    assert tree.get_prefix_sum_idx(np.array([2.0]).astype(">f8")).tolist() == [2]
