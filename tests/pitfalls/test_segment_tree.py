"""C: the segment tree of prioritized replay: the leaf of a mass, drift, and invalid leaves."""

import numpy as np
import pytest

from rlfast.data import SegmentTree


def tree_of(leaves):
    tree = SegmentTree(len(leaves))
    tree[np.arange(len(leaves))] = np.asarray(leaves, float)
    return tree


def find(tree, masses):
    return np.asarray(tree.get_prefix_sum_idx(np.asarray(masses, float))).tolist()


# -- C1, C2, C3: which leaf a mass belongs to ------------------------------------------------------------------------


@pytest.mark.pitfall("C1")
@pytest.mark.parametrize("first", range(1, 1026, 128))
def test_every_capacity_finds_every_leaf(first):
    for size in range(first, min(first + 128, 1026)):
        assert find(tree_of(np.ones(size)), np.arange(size) + 0.5) == list(range(size)), f"capacity {size}"


@pytest.mark.pitfall("C2")
@pytest.mark.parametrize("size", [2, 9, 64, 65, 513])
def test_every_boundary_of_a_tree_with_gaps(size):
    leaves = np.arange(size) % 3 * 1.0
    tree, upper = tree_of(leaves), np.cumsum(leaves)
    live = np.flatnonzero(leaves)
    assert find(tree, upper[live]) == live.tolist()
    assert find(tree, np.nextafter(upper[live] - leaves[live], np.inf)) == live.tolist()
    assert find(tree, [0.0]) == live[:1].tolist()


@pytest.mark.pitfall("C3")
def test_no_draw_falls_behind_the_live_leaves():
    random, tree = np.random.default_rng(0), SegmentTree(500)
    for _ in range(1000):
        tree[random.permutation(100)] = random.random(100) * 10.0 ** random.integers(-8, 8, 100)
        draws = np.asarray(tree.get_prefix_sum_idx(random.random(1000) * tree.reduce()))
        assert draws.max() < 100


# -- C4: drift -------------------------------------------------------------------------------------------------------


def churn(tree, leaves, updates, random):
    for _ in range(updates // 100_000):
        index = random.integers(0, len(leaves), 100_000)
        values = random.random(100_000) * 10.0 ** random.integers(-6, 6, 100_000)
        values[random.random(100_000) < 0.2] = 0.0
        tree[index] = values
        leaves[index] = values  # the last of a duplicate wins in NumPy too


def drawn_without_mass(tree, leaves, draws, random):
    found = 0
    for _ in range(draws // 1_000_000):
        index = np.asarray(tree.get_prefix_sum_idx(random.random(1_000_000) * tree.reduce()))
        found += int((leaves[index] == 0).sum())
    return found


@pytest.mark.pitfall("C4")
@pytest.mark.parametrize(
    ("updates", "draws"),
    [(2_000_000, 2_000_000), pytest.param(10_000_000, 100_000_000, marks=pytest.mark.long)],
    ids=["quick", "long"],
)
def test_the_root_does_not_drift_and_empty_leaves_are_not_drawn(updates, draws):
    random = np.random.default_rng(0)
    tree, leaves = SegmentTree(1_000_000), np.zeros(1_000_000)
    churn(tree, leaves, updates, random)
    assert abs(tree.reduce() - leaves.sum()) <= 1e-12 * leaves.sum()
    assert drawn_without_mass(tree, leaves, draws, random) == 0


# -- C5, C7: updates ---
