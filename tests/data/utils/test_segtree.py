"""The sum tree: its interface, its results compared with Tianshou's definition, errors and pickling."""

import copy
import pickle
import threading

import numpy as np
import pytest

from rlfast.data import SegmentTree


def tree_of(*leaves):
    tree = SegmentTree(len(leaves))
    tree[np.arange(len(leaves))] = np.array(leaves, float)
    return tree


def leaves_of(tree):
    return tree[np.arange(len(tree))].tolist()


class TestItems:
    def test_a_new_tree_is_zero(self):
        tree = SegmentTree(5)
        assert (len(tree), tree.reduce(), leaves_of(tree)) == (5, 0.0, [0.0] * 5)

    def test_an_integer_gives_a_float(self):
        tree = tree_of(1, 2, 3)
        for index in (1, np.int64(1), np.uint8(1)):
            assert type(tree[index]) is float
            assert tree[index] == 2.0

    @pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8])
    def test_an_array_gives_an_array_of_its_shape(self, dtype):
        got = tree_of(1, 2, 3)[np.array([[0, 2], [1, 1]], dtype)]
        assert got.dtype == np.float64
        assert got.tolist() == [[1, 3], [2, 2]]

    def test_strided_arrays_are_read_right(self):
        tree = SegmentTree(10)
        tree[np.arange(10)[::2]] = np.arange(10.0)[::-1][::2]
        assert leaves_of(tree) == [9, 0, 7, 0, 5, 0, 3, 0, 1, 0]
        assert tree[np.arange(10)[::-2]].tolist() == [0.0] * 5
        masses = np.repeat([0.0, 9.5], 2)[::2]
        assert tree.get_prefix_sum_idx(masses).tolist() == [0, 2]

    def test_values_broadcast(self):
        tree = SegmentTree(6)
        tree[np.array([1, 2])] = 4
        tree[np.array([[3, 4], [3, 5]])] = np.array([7.0, 8.0])
        tree[[0]] = [2.0]
        assert leaves_of(tree) == [2, 4, 4, 7, 8, 8]

    @pytest.mark.pitfall("C7")
    def test_the_last_of_duplicates_wins(self):
        tree = SegmentTree(8)
        tree[np.array([5, 5])] = np.array([1.0, 9.0])
        assert (tree[5], tree.reduce()) == (9.0, 9.0)

    def test_no_index_changes_nothing(self):
        tree = tree_of(1, 2)
        tree[np.array([], int)] = np.array([])
        tree[[]] = []
        assert leaves_of(tree) == [1, 2]
        assert tree[np.array([], int)].shape == (0,)
        assert tree.get_prefix_sum_idx(np.array([])).shape == (0,)


class TestReduce:
    def test_bounds_are_those_of_a_slice(self):
        tree = tree_of(1, 2, 4, 8)
        assert tree.reduce() == tree.reduce(0) == tree.reduce(0, None) == tree.reduce(0, 4) == 15.0
        assert (tree.reduce(1, 3), tree.reduce(2), tree.reduce(1, -1), tree.reduce(end=2)) == (6, 12, 6, 3)
        assert tree.reduce(2, 2) == tree.reduce(3, 1) == 0.0

    @pytest.mark.parametrize("bounds", [(-1, 2), (0, 5), (5, None), (0, -5)])
    def test_bounds_outside_are_named(self, bounds):
        with pytest.raises(IndexError, match=f"leaves {bounds[0]} to {bounds[1]} reach outside a tree of 4"):
            tree_of(1, 2, 4, 8).reduce(*bounds)


class TestFind:
    def test_a_number_gives_an_int_and_an_array_an_array(self):
        tree = tree_of(1, 2, 3)
        assert type(tree.get_prefix_sum_idx(2)) is int
        assert type(tree.get_prefix_sum_idx(np.float64(2))) is int
        got = tree.get_prefix_sum_idx(np.array([[0.0, 1.0], [3.0, 5.9]]))
        assert got.dtype == np.int64
        assert got.tolist() == [[0, 0], [1, 2]]

    def test_masses_are_left_alone(self):
        masses = np.array([0.5, 2.5])
        tree_of(1, 2, 3).get_prefix_sum_idx(masses)
        assert masses.tolist() == [0.5, 2.5]

    @pytest.mark.pitfall("C2")
    def test_boundaries_belong_to_the_leaf_that_ends_there(self):
        tree = tree_of(0, 1, 0, 1, 0)
        masses = np.array([0.0, np.nextafter(1, 0), 1.0, np.nextafter(1, 2), np.nextafter(2, 0), 2.0])
        assert tree.get_prefix_sum_idx(masses).tolist() == [1, 1, 1, 3, 3, 3]

    @pytest.mark.pitfall("C2")
    @pytest.mark.parametrize("mass", [np.nextafter(2.0, 3), 9.0, -1e-300, np.nan, np.inf])
    @pytest.mark.parametrize("error", [AssertionError, ValueError])
    def test_a_mass_outside_the_sum_is_named(self, mass, error):
        tree = tree_of(0, 1, 0, 1)
        with pytest.raises(error, match=r"mass .* is outside \[0, 2\]"):
            tree.get_prefix_sum_idx(mass)
        with pytest.raises(error, match=r"at position 1 is outside \[0, 2\]"):
            tree.get_prefix_sum_idx(np.array([1.0, mass, 0.0]))

    @pytest.mark.pitfall("C5")
    def test_a_tree_of_zeros_has_nothing_to_find(self):
        with pytest.raises(ValueError, match="every leaf is zero"):
            SegmentTree(3).get_prefix_sum_idx(0.0)


class TestBadInput:
    @pytest.mark.parametrize("index", [4, -1, 2**40])
    @pytest.mark.parametrize("error", [IndexError, AssertionError])
    def test_an_index_outside_is_named_and_changes_nothing(self, index, error):
        tree = tree_of(1, 2, 3, 4)
        for use in (lambda i: tree[i], lambda i: tree.__setitem__(i, 9.0)):
            with pytest.raises(error, match=f"leaf {index} at position 0 is outside a tree of 4"):
                use(index)
            with pytest.raises(error, match=f"leaf {index} at position 2 is outside a tree of 4"):
                use(np.array([0, 1, index]))
        assert leaves_of(tree) == [1, 2, 3, 4]

    @pytest.mark.pitfall("C5")
    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, -1.0])
    def test_a_bad_value_is_named_and_changes_nothing(self, bad):
        tree = tree_of(1, 2, 3, 4)
        with pytest.raises(ValueError, match=r"finite, not negative and at most .*, got .* at position 1"):
            tree[np.array([0, 2])] = np.array([7.0, bad])
        with pytest.raises(ValueError, match="at position 0"):
            tree[1] = bad
        assert leaves_of(tree) == [1, 2, 3, 4]

    def test_values_that_do_not_fit_the_index(self):
        tree = tree_of(1, 2, 3)
        with pytest.raises(ValueError, match="shape"):
            tree[np.array([0, 1])] = np.array([1.0, 2.0, 3.0])
        with pytest.raises(ValueError, match="string"):
            tree[0] = "heavy"
        assert leaves_of(tree) == [1, 2, 3]

    @pytest.mark.parametrize("index", [np.array([0.0, 1.0]), np.array([True, False, True]), "first", slice(0, 2)])
    def test_what_is_no_index(self, index):
        with pytest.raises(TypeError, match="integers"):
            tree_of(1, 2, 3)[index]

    @pytest.mark.parametrize("size", [0, -3])
    def test_a_tree_needs_leaves(self, size):
        with pytest.raises(ValueError, match=f"at least 1, got {size}"):
            SegmentTree(size)

    def test_a_tree_larger_than_memory_says_how_large(self):
        with pytest.raises(MemoryError, match="a tree of 1152921504606846976 leaves takes 10540996613548315209 bytes"):
            SegmentTree(2**60)


class TestCopies:
    @pytest.mark.parametrize("copied", [lambda tree: pickle.loads(pickle.dumps(tree)), copy.deepcopy])
    @pytest.mark.parametrize("size", [1, 9, 1000])
    def test_a_copy_is_equal_and_apart(self, copied, size):
        tree = tree_of(*np.random.default_rng(size).random(size))
        twin = copied(tree)
        assert leaves_of(twin) == leaves_of(tree)
        assert twin.reduce() == tree.reduce()
        twin[0] = 99.0
        assert tree[0] < 1

    def test_a_state_of_another_size_is_refused(self):
        with pytest.raises(ValueError, match="got 2 leaves for a tree of 3"):
            SegmentTree(3).__setstate__(np.ones(2))


def test_many_threads_may_share_a_tree():
    """The work is large enough to be done without the interpreter."""
    tree, n, errors = SegmentTree(20_000), 20_000, []
    tree[np.arange(n)] = 1.0

    def work(seed):
        random = np.random.default_rng(seed)
        try:
            for _ in range(30):
                found = tree.get_prefix_sum_idx(random.random(n) * 0.49 * n)
                tree[found] = 0.5 + random.random(n) / 2
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    np.testing.assert_allclose(tree.reduce(), tree[np.arange(n)].sum(), rtol=1e-12)
