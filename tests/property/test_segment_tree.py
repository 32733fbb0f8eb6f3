"""The segment tree against a list of leaves."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.segment_tree import SegmentTree as SlowTree
from rlfast.data import SegmentTree

# Whole numbers add up without rounding, whatever the order; so every answer can be told exactly.
leaf = st.one_of(st.just(0), st.integers(0, 3), st.integers(0, 2**40))


def pair(size):
    return SegmentTree(size), SlowTree(size)


def same(tree, slow, random):
    size = len(slow.leaves)
    assert len(tree) == size
    assert np.asarray(tree[np.arange(size)]).tolist() == slow.leaves
    assert tree.reduce() == slow.reduce()
    for _ in range(4):
        start, end = sorted(int(place) for place in random.integers(0, size + 1, 2))
        assert tree.reduce(start, end) == slow.reduce(start, end)
    if not slow.reduce():
        return
    upper = np.cumsum(slow.leaves)
    masses = np.unique(
        np.concatenate([upper, upper - slow.leaves, np.nextafter(upper, 0), random.random(8) * upper[-1]])
    )
    assert np.asarray(tree.get_prefix_sum_idx(masses)).tolist() == [slow.find(mass) for mass in masses]
    assert int(tree.get_prefix_sum_idx(float(masses[-1]))) == slow.find(masses[-1])


@settings(max_examples=150, deadline=None)
@given(st.data(), st.one_of(st.integers(1, 20), st.integers(60, 70), st.integers(510, 515)))
def test_a_tree_answers_like_a_list(data, size):
    tree, slow = pair(size)
    random = np.random.default_rng(0)
    place = st.integers(0, size - 1)
    for _ in range(data.draw(st.integers(1, 6))):
        updates = data.draw(st.lists(st.tuples(place, leaf), max_size=20))
        if updates:
            index, values = np.array(updates).T
            tree[index] = values.astype(float)
        for where, value in updates:
            slow.leaves[where] = float(value)
        same(tree, slow, random)


@pytest.mark.parametrize("size", [1, 2, 7, 8, 9, 63, 64, 65, 100, 512, 513, 4097])
def test_many_updates_of_every_width(size):
    tree, slow = pair(size)
    random = np.random.default_rng(size)
    for _ in range(60):
        index = random.integers(0, size, random.integers(1, 2 * size + 1))
        values = random.integers(0, 2**30, len(index)) * (random.random(len(index)) < 0.6)
        tree[index] = values.astype(float)
        for where, value in zip(index.tolist(), values.tolist(), strict=True):
            slow.leaves[where] = float(value)
    same(tree, slow, random)


def test_one_leaf_at_a_time():
    tree, slow = pair(70)
    random = np.random.default_rng(1)
    for _ in range(300):
        where, value = int(random.integers(70)), float(random.integers(0, 5))
        tree[where] = value
        slow.leaves[where] = value
        assert float(tree[where]) == value
        assert tree.reduce() == slow.reduce()
    same(tree, slow, random)
