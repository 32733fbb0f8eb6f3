from collections import OrderedDict, UserDict, defaultdict, deque
from typing import NamedTuple

import numpy as np
import pytest
import torch

from rlfast.data import Batch
from rlfast.data.batch.batch import wrap_nested
from rlfast.utils.tree import (
    as_host,
    clear,
    collate,
    copied,
    each,
    object_array,
    put,
    storable,
    take,
    with_own_objects,
    without,
)


class Memory(NamedTuple):
    cell: object
    hidden: object


def trees():
    a, t = np.arange(6.0).reshape(3, 2), torch.arange(3)
    return [a, t, {"a": a, "b": {"t": t}}, (a, t), [t, a], Memory(a, t), Batch(a=a, b=Batch(t=t))]


def leaves(tree):
    if isinstance(tree, np.ndarray | torch.Tensor):
        return [np.asarray(tree)]
    values = tree.__dict__.values() if isinstance(tree, Batch) else tree.values() if isinstance(tree, dict) else tree
    return [leaf for value in values for leaf in leaves(value)]


@pytest.mark.parametrize("tree", trees(), ids=lambda tree: type(tree).__name__)
def test_every_structure_is_kept(tree):
    ids = np.array([2, 0])
    before = [leaf.copy() for leaf in leaves(tree)]
    taken, cleared, replaced = take(tree, ids), clear(tree, ids), put(tree, ids, take(tree, ids[::-1].copy()), 3)
    for result in (taken, cleared, replaced):
        assert type(result) is type(tree)
    for old, new in zip(leaves(tree), leaves(taken), strict=True):
        np.testing.assert_array_equal(new, old[[2, 0]])
    for old, new in zip(leaves(tree), leaves(cleared), strict=True):
        np.testing.assert_array_equal(new[1], old[1])
        assert not new[[0, 2]].any()
    for old, new in zip(leaves(tree), leaves(replaced), strict=True):
        np.testing.assert_array_equal(new, old[[2, 1, 0]])
    for old, now in zip(before, leaves(tree), strict=True):
        np.testing.assert_array_equal(now, old)  # nothing was changed in place


@pytest.mark.parametrize("tree", trees(), ids=lambda tree: type(tree).__name__)
def test_rows_without_a_tree_stand_among_zeros(tree):
    full = put(None, np.array([1, 3, 4]), tree, 5)
    for old, new in zip(leaves(tree), leaves(full), strict=True):
        assert len(new) == 5
        np.testing.assert_array_equal(new[[1, 3, 4]], old)
        assert not new[[0, 2]].any()


def test_all_rows_at_once_and_none():
    array = np.arange(3)
    assert take(array, None) is array
    assert put(np.zeros(3), None, array, 3) is array
    assert take(None, np.array([1])) is None
    assert clear(None, np.array([1])) is None
    assert put(array, np.array([1]), None, 3) is None


def test_no_number_is_cut_to_fit():
    mixed = put(np.array([1, 2]), np.array([1]), np.array([0.5]), 2)
    assert mixed.tolist() == [1.0, 0.5]


def test_entries_of_different_shapes_become_objects():
    mixed = put(np.zeros((2, 3)), np.array([1]), np.ones((1, 4)), 2)
    assert mixed.dtype == object
    assert [entry.tolist() for entry in mixed] == [[0.0] * 3, [1.0] * 4]


def test_objects_are_cleared_to_none():
    assert clear(np.array(["a", "b"], dtype=object), np.array([1])).tolist() == ["a", None]


def test_gradients_pass_through_a_reset():
    state = torch.ones(3, requires_grad=True)
    clear(state * 2, np.array([1])).sum().backward()
    assert state.grad.tolist() == [2.0, 0.0, 2.0]


def test_what_has_no_rows_is_refused():
    with pytest.raises(TypeError, match=r"arrays or tensors.*got <class 'int'>"):
        take({"a": 3}, np.array([0]))
    with pytest.raises(TypeError, match="got <class 'str'>"):
        storable({"a": "b"})


def test_what_is_stored_is_nested_dicts_of_arrays():
    tree = Batch(a=torch.ones(2, requires_grad=True) * 3, b=np.zeros(2))
    stored = storable({"x": tree, "y": (torch.zeros(2), [np.ones(2)])})
    assert stored.keys() == {"x", "y"}
    assert stored["x"]["a"].tolist() == [3.0, 3.0]
    assert stored["y"].keys() == {"0", "1"}
    assert stored["y"]["1"]["0"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn])
def test_bfloat16_becomes_float32(dtype):
    array = as_host(torch.tensor([0.5, -2.0]).to(dtype).requires_grad_())
    assert (array.tolist(), array.dtype) == ([0.5, -2.0], np.float32)


def test_what_numpy_cannot_hold_is_refused():
    with pytest.raises(TypeError, match="Sparse"):
        as_host(torch.eye(2).to_sparse())
    with pytest.warns(UserWarning, match="ComplexHalf"):
        value = torch.zeros(2, dtype=torch.complex32)
    with pytest.raises(TypeError, match="ComplexHalf"):
        as_host(value)


class Opaque:
    """An object of a kind that is not copied."""


def originals():
    """Values, and how each is changed in place."""
    inner = np.zeros(2)
    record = np.zeros((), [("a", "i8")])[()]
    objects = np.array([[1], None], object)
    return {
        "array": (np.zeros(2), lambda it: it.fill(1)),
        "array of no axes": (np.zeros(()), lambda it: it.fill(1)),
        "array of objects": (objects, lambda it: it[0].append(2)),
        "record": (record, lambda it: it.__setitem__("a", 3)),
        "tensor": (torch.zeros(2), lambda it: it.fill_(1)),
        "batch": (Batch(a=np.zeros(2)), lambda it: it.a.fill(1)),
        "dict": ({"a": {"b": [1]}}, lambda it: it["a"]["b"].append(2)),
        "list": ([inner], lambda it: it[0].fill(1)),
        "tuple": (([1],), lambda it: it[0].append(2)),
        "named tuple": (Memory([1], 2), lambda it: it.cell.append(2)),
        "ordered": (OrderedDict(a=[1]), lambda it: it["a"].append(2)),
        "default": (defaultdict(list, a=[1]), lambda it: it["b"]),
        "user's": (UserDict(a=[1]), lambda it: it["a"].append(2)),
        "deque": (deque([[1]], maxlen=3), lambda it: it[0].append(2)),
        "set": ({1}, lambda it: it.add(2)),
        "bytes": (bytearray(b"a"), lambda it: it.append(1)),
    }


@pytest.mark.parametrize("name", originals())
def test_copies_share_nothing_that_may_change(name):
    value, change = originals()[name]
    before = repr(value)
    copy = copied(value)
    assert type(copy) is type(value)
    change(value)
    assert repr(value) != before
    assert repr(copy) == before
    change(copy)
    assert repr(copy) == repr(value)


def test_copy_keeps_objects_and_sharing():
    one, shared = Opaque(), [1]
    value = {"object": one, "text": "a", "none": None, "twice": [shared, shared]}
    copy = copied(value)
    assert copy["object"] is one
    assert copy["twice"][0] is copy["twice"][1] is not shared


def test_a_dict_of_arrays_that_occurs_twice_is_copied_once():
    shared = {"a": np.zeros(2)}
    first, second = copied((shared, {"again": shared}))
    assert first is second["again"] is not shared
    assert first["a"] is not shared["a"]


@pytest.mark.parametrize("array", [np.zeros((0, 2)), np.arange(6).reshape(2, 3).T, np.arange(4, dtype=">i4")[::2]])
def test_copies_and_rows_of_arrays_of_any_layout(array):
    for made, expected in ((copied({"a": array})["a"], array), (collate([array, array]), np.stack([array, array]))):
        np.testing.assert_array_equal(made, expected)
        assert made.dtype == expected.dtype
        assert made.flags.c_contiguous
        assert not np.shares_memory(made, array)


def test_deep_dicts_are_copied_and_collated():
    value = np.arange(2)
    for _ in range(30):
        value = {"in": value}
    assert repr(copied(value)) == repr(value)
    assert "array([[0, 1],\n" in repr(collate([value] * 2))


def test_copies_of_containers_within_themselves():
    value = {}
    value[1] = [{"whole": value}]
    copy = copied(value)
    assert copy[1][0]["whole"] is copy is not value


def test_a_batch_of_a_dict_within_itself():
    value = {}
    value["whole"] = value
    with pytest.raises(RecursionError):
        wrap_nested(value)


def test_objects_in_arrays_are_copied():
    numbers, words = np.zeros(2), object_array([[1], [2]])
    own = with_own_objects({"a": numbers, "b": (words,)})
    words[0].append(3)
    assert own["a"] is numbers
    assert own["b"][0].tolist() == [[1], [2]]


@pytest.mark.parametrize(
    ("values", "left"),
    [
        (None, None),
        (3, 3),
        ({"a": 1}, {"a": 1}),
        ({"b": {"c": 2}}, None),
        ({"a": 1, "b": 2}, {"a": 1}),
        (Batch(a=1, b=Batch(c=2)), {"a": 1}),
        ({"first": {"a": 1, "b": 2}, "second": Batch(b=2)}, {"first": {"a": 1}}),  # of several agents
    ],
)
def test_without_an_entry(values, left):
    assert without(values, "b") == left


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, np.float32, bool])
def test_each_row_is_a_scalar_of_numpy(dtype):
    array = np.array([3, 0, 3, 1]).astype(dtype)
    assert each(array) == [*array]
    assert {type(row) for row in each(array)} == {array.dtype.type}


def test_each_row_of_large_integers():
    numbers = [-1, 2**62, -(2**63), 10**6, 999]
    rows = each(np.array(numbers))
    assert rows == numbers
    assert {type(row) for row in rows} == {np.int64}


@pytest.mark.parametrize("last", [{"a": 1}, {"a": 1, "b": 2, "c": 3}, {"a": 1, "c": 2}, (1, 2), 3, None])
def test_dicts_of_other_keys_are_not_collated(last):
    rows = [{"a": 1, "b": 2}, {"b": 2, "a": 1}, last]
    assert collate(rows).tolist() == rows
    assert set(collate(rows[:2])) == {"a", "b"}
