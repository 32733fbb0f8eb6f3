import copy
import ctypes
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch

import rlfast.data.batch
from rlfast.data import Batch
from rlfast.data.batch import BatchProtocol, alloc_by_keys_diff, create_value, wrap


def step():
    return Batch(
        obs=np.zeros(4, "f4"), act=1, rew=0.5, terminated=False, truncated=False, obs_next=np.ones(4, "f4"), info={}
    )


class Container:
    """An object that NumPy converts as if it were a list."""

    def __len__(self):
        return 3

    def __getitem__(self, i):
        return range(3)[i]


# -- what a field becomes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "dtype", "shape"),
    [
        (1, "int64", ()),
        (2.5, "float64", ()),
        (True, "bool", ()),
        (np.float32(1), "float32", ()),
        (1 + 2j, "complex128", ()),
        ([1, 2], "int64", (2,)),
        ((1.0, 2), "float64", (2,)),
        ([[1], [2]], "int64", (2, 1)),
        (range(3), "int64", (3,)),
        ([], "float64", (0,)),
        (["a", "b"], "object", (2,)),
        ([b"a"], "object", (1,)),
        ([1, None], "object", (2,)),
        ([[1], [2, 3]], "object", (2,)),
        ([np.zeros(2), np.zeros(3)], "object", (2,)),
        ([np.zeros((3, 2)), np.zeros((2, 2))], "object", (2,)),
        ([[np.zeros(2), np.zeros(3)]] * 2, "object", (2, 2)),
        ([torch.tensor(1.0), 2.0], "float64", (2,)),
        (np.array(["a", "b"]), "object", (2,)),
        (np.array([1, 2], ">f4"), ">f4", (2,)),
        (2**70, "object", ()),
        ([Container(), Container()], "object", (2,)),
    ],
)
def test_a_value_becomes_an_array(value, dtype, shape):
    field = Batch(a=value).a
    assert type(field) is np.ndarray
    assert (field.dtype, field.shape) == (np.dtype(dtype), shape)


@pytest.mark.parametrize("value", [None, "text", b"text", {1, 2}, object, Container(), np.array("text")])
def test_an_object_is_kept(value):
    field = Batch(a=value).a
    assert field == "text" if isinstance(value, np.ndarray) else field is value


def test_numbers_beside_strings_stay_numbers():
    assert Batch(a=[1, "x"]).a.tolist() == [1, "x"]


def test_strings_of_numpy_become_plain():
    assert type(Batch(a=np.str_("a")).a) is str
    assert [type(entry) for entry in Batch(a=[np.str_("a"), np.str_("b")]).a] == [str, str]


@pytest.mark.parametrize("shapes", [[(2, 3), (2, 4)], [(1, 3), (1, 4), (1, 3)], [(2,), (2, 2)]], ids=str)
def test_arrays_of_one_length_but_different_shapes_are_refused(shapes):
    for kind in (list, tuple):
        with pytest.raises(TypeError, match="NumPy cannot make an array of these"):
            Batch(a=kind(np.zeros(shape) for shape in shapes))
    batch = Batch(b=1)
    with pytest.raises(TypeError):
        batch.a = [np.zeros(shape) for shape in shapes]
    assert list(batch.keys()) == ["b"]


def test_arrays_tensors_and_batches_are_kept_not_copied():
    array, tensor, batch = np.zeros(2), torch.zeros(2), Batch(a=1)
    got = Batch(a=array, b=tensor, c=batch)
    assert got.a is array
    assert got.b is tensor
    assert got.c is batch


def test_copy_keeps_nothing_of_what_was_given():
    array = np.zeros(2)
    for got in (Batch({"a": array}, copy=True), Batch(a=array, copy=True), Batch(Batch(a=array), copy=True)):
        got.a[0] = 1
    assert array[0] == 0


def test_dicts_become_batches():
    got = Batch({"a": {"b": {"c": [1, 2]}, "d": {}}}, e=[{"f": 1}, {"f": 2, "g": 0.5}])
    assert isinstance(got.a.b, Batch)
    assert got.a.b.c.tolist() == [1, 2]
    assert got.a.d.is_empty()
    assert got.e.f.tolist() == [1, 2]
    assert got.e.g.tolist() == [0.0, 0.5]


@pytest.mark.parametrize(
    "rows", [[{"a": 1}, Batch(a=2)], ({"a": 1}, {"a": 2}), np.array([{"a": 1}, {"a": 2}], dtype=object)]
)
def test_a_list_of_dicts_is_stacked(rows):
    assert Batch(rows).a.tolist() == [1, 2]
    assert Batch(x=rows).x.a.tolist() == [1, 2]


def test_keywords_win_over_the_dict():
    assert list(Batch({"a": 1, "b": 2}, b=3, c=4).items()) == [("a", 1), ("b", 3), ("c", 4)]


def test_equal_tensors_are_stacked():
    assert Batch(a=[torch.zeros(2), torch.ones(2)]).a.tolist() == [[0, 0], [1, 1]]


@pytest.mark.parametrize(
    "value", [[torch.zeros(2), torch.zeros(3)], [torch.zeros(2), 1], np.array([torch.zeros(2), None], dtype=object)]
)
def test_other_lists_of_tensors_are_refused(value):
    with pytest.raises(TypeError, match="tensors"):
        Batch(a=value)


@pytest.mark.parametrize("value", [5, "text", [1, 2], np.zeros(2), [{"a": 1}, 2], {1}, torch.zeros(2)])
def test_what_has_no_names_is_dropped_with_a_warning(value):
    with pytest.warns(UserWarning, match="a Batch is made of") as caught:
        batches = Batch(value), Batch(value, b=1)
    assert [list(batch.keys()) for batch in batches] == [[], ["b"]]
    assert {warning.filename for warning in caught} == {__file__}


def test_update_takes_no_list():
    with pytest.raises(AttributeError, match="items"):
        Batch(a=1).update([1, 2])


def test_an_array_of_one_number_is_set_as_one_number():
    batch = Batch(a=np.arange(3), n=Batch(f=np.zeros(3, "f4")), t=torch.zeros(3), o=np.array([None, "x", 2]))
    batch[1] = {"a": [7], "n": {"f": [[2.5]]}, "t": torch.ones(1), "o": [5]}
    assert batch.a.tolist() == [0, 7, 2]
    assert batch.n.f.tolist() == [0, 2.5, 0]
    assert batch.t.tolist() == [0, 1, 0]
    with pytest.raises(ValueError, match="sequence"):
        batch[1] = {"a": [7, 8]}


@pytest.mark.parametrize("make", [Batch, lambda d: Batch(a=d), lambda d: Batch().update(d)])
def test_keys_are_strings(make):
    with pytest.raises(AssertionError, match=r"strings, got \[1\]"):
        make({1: 2})


@pytest.mark.parametrize("nothing", [None, {}, [], (), Batch(), np.array([], dtype=object)])
def test_nothing_makes_an_empty_batch(nothing):
    assert Batch(nothing).is_empty()


def test_wrap_neither_copies_nor_looks():
    fields = {"a": [1, 2]}
    batch = wrap(fields)
    assert type(batch) is Batch
    assert batch.__dict__ is fields
    assert batch.a is fields["a"]


# -- a dict of fields --------------------------------------------------------------------------------------------------


def test_fields_are_attributes_and_keys():
    batch = Batch(a=1)
    batch.b = [1, 2]
    batch["c"] = {"d": 3}
    batch.__dict__["e"] = [5]
    assert list(batch.keys()) == list(batch.get_keys()) == ["a", "b", "c", "e"]
    assert batch["b"] is batch.b
    assert isinstance(batch.c, Batch)
    assert batch.e == [5]
    assert "c" in batch
    assert "d" not in batch
    del batch.c
    assert "c" not in batch
    assert batch.pop("b").tolist() == [1, 2]
    assert batch.pop("b", 7) == 7
    assert batch.get("b") is None
    assert batch.get("b", 7) == 7
    assert batch.setdefault("f", 1) == 1
    with pytest.raises(KeyError):
        batch.pop("b")
    with pytest.raises(KeyError):
        batch["b"]
    with pytest.raises(AttributeError, match="Batch has no field 'b'"):
        batch.b


def test_fields_may_have_the_names_of_methods():
    batch = Batch(keys=[1, 2], items=[3, 4], values=[5, 6])
    for again in (batch, pickle.loads(pickle.dumps(batch)), copy.deepcopy(batch), Batch(batch), Batch.cat([batch])):
        assert again.keys.tolist() == [1, 2]
        assert again[0].to_dict() == {"keys": 1, "items": 3, "values": 5}
        assert list(again.get_keys()) == ["keys", "items", "values"]


def test_update_sets_all_or_nothing():
    batch = Batch(a=1, b=2)
    with pytest.raises(TypeError):
        batch.update({"a": 3}, b=[torch.zeros(1), torch.zeros(2)])
    assert (batch.a, batch.b) == (1, 2)
    batch.update({"a": 3}, c=[1])
    batch.update(Batch(b={"x": 1}))
    batch.update()
    assert repr(batch.to_dict()) == "{'a': array(3), 'b': {'x': array(1)}, 'c': array([1])}"


def test_to_dicts():
    batch = Batch(a=[1, 2], b={"c": [3, 4]})
    assert batch.to_list_of_dicts() == [{"a": 1, "b": {"c": 3}}, {"a": 2, "b": {"c": 4}}]
    assert batch.to_dict(recursive=False)["b"] is batch.b


@pytest.mark.parametrize(
    "again", [copy.deepcopy, copy.copy, lambda b: pickle.loads(pickle.dumps(b))], ids=["deepcopy", "copy", "pickle"]
)
def test_copies(again):
    batch = Batch(a=np.arange(3), b={"c": torch.ones(2), "d": {}}, e="text", f=None, g=[{}, None], copy=False)
    batch.__dict__["copy"] = np.arange(2)
    got = again(batch)
    assert type(got) is type(got.b) is type(got.b.d) is Batch
    assert repr(got) == repr(batch)
    got.b.x = 1
    assert "x" not in batch.b


def test_a_deep_copy_keeps_what_is_shared_inside():
    shared = np.zeros(2)
    batch = copy.deepcopy(Batch(a=shared, b={"c": shared}))
    assert batch.a is batch.b.c
    assert batch.a is not shared


def test_the_scalars_of_a_row_become_arrays_when_copied():
    row = Batch(a=[1, 2])[0]
    assert isinstance(row.a, np.int64)
    assert isinstance(copy.deepcopy(row).a, np.ndarray)


def test_repr():
    batch = Batch(a=np.zeros((2, 2)), long=Batch(b=None, c=Batch()), e="text")
    assert repr(batch) == (
        "Batch(\n"
        "    a: array([[0., 0.],\n"
        "              [0., 0.]]),\n"
        "    long: Batch(\n"
        "              b: None,\n"
        "              c: Batch(),\n"
        "          ),\n"
        "    e: 'text',\n"
        ")"
    )
    assert repr(Batch()) == "Batch()"


# -- rows --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "index",
    [0, -1, slice(1, None), [0, 2], np.array([1]), np.array([True, False, True]), ..., (..., 0), None, np.int64(1)],
)
def test_rows_are_those_of_every_field(index):
    batch = Batch(a=np.arange(6).reshape(3, 2), b={"c": torch.arange(6).reshape(3, 2), "d": {}}, e={})
    got = batch[index]
    np.testing.assert_array_equal(got.a, batch.a[index])
    np.testing.assert_array_equal(got.b.c, batch.b.c[index])
    assert got.b.d.is_empty()
    assert got.e.is_empty()


@pytest.mark.parametrize(
    ("batch", "index", "error"),
    [
        (Batch(), 0, IndexError),
        (Batch(a=1), 0, IndexError),
        (Batch(a=[1, 2]), 2, IndexError),
        (Batch(a=[1, 2]), 0.5, IndexError),
        (Batch(a=None), 0, TypeError),
    ],
)
def test_rows_that_are_not_there(batch, index, error):
    with pytest.raises(error):
        batch[index]


def test_setting_rows():
    batch = Batch(a=[1, 2, 3], b={"c": torch.ones(3), "d": {}}, e=["x", "y", "z"], f={})
    batch[0] = Batch(a=7, b={"c": torch.tensor(5.0)})
    batch[1:] = {"b": {"c": torch.tensor([8.0, 9.0])}, "e": ["p", "q"]}
    assert batch.a.tolist() == [7, 0, 0]
    assert batch.b.c.tolist() == [5, 8, 9]
    assert batch.e.tolist() == [None, "p", "q"]


@pytest.mark.parametrize(
    "value", [3, None, np.zeros(2), torch.zeros(2), {"c": 1}, {"a": Batch()}, {"b": 1}, {"b": {"x": 1}}]
)
def test_rows_are_set_to_like_batches(value):
    batch = Batch(a=[1, 2], b={"c": [3, 4]})
    with pytest.raises(ValueError):
        batch[0] = value
    assert batch.to_list_of_dicts() == [{"a": 1, "b": {"c": 3}}, {"a": 2, "b": {"c": 4}}]


def test_iterating():
    assert [row.a for row in Batch(a=[1, 2, 3], b=[4, 5])] == [1, 2]
    assert list(Batch(a=1)) == list(Batch()) == []


def test_iterating_over_empty_batches_ends():
    assert list(Batch(a=Batch(), b=Batch(c=Batch()))) == []


def test_length_and_shape():
    batch = Batch(a=np.zeros((3, 4, 2)), b={"c": torch.zeros(2, 5), "d": {}}, e={})
    assert len(batch) == 2
    assert Batch(a=np.zeros((3, 4)), b=np.zeros((2, 5, 1))).shape == [2, 4]
    assert Batch(a=np.zeros((3, 4))).shape == [3, 4]
    assert Batch(a=np.zeros((3, 4)), b="text").shape == Batch().shape == []


@pytest.mark.parametrize("batch", [Batch(), Batch(a=Batch()), Batch(a=1), Batch(a=[1], b=None), Batch(a=[1], b="text")])
def test_without_rows_there_is_no_length(batch):
    with pytest.raises(TypeError, match="no length"):
        len(batch)


def test_empty_dicts_of_a_list_keep_their_rows():
    infos = np.array([{}, {"won": True, "at": {"x": 2}}, {}], object)
    for batch in (Batch(info=infos), Batch({"info": [*infos]})):
        assert batch.info.won.tolist() == [False, True, False]
        assert batch.info.at.x.tolist() == [0, 2, 0]
    assert Batch(info=[{}, {}]).info.is_empty()


def test_is_empty():
    assert Batch().is_empty()
    assert not Batch(a={}).is_empty()
    assert Batch(a={}, b={"c": {}}).is_empty(recurse=True)
    assert not Batch(a=None).is_empty(recurse=True)


@pytest.mark.parametrize(
    ("size", "merge_last", "lengths"),
    [
        (3, False, [3, 3, 1]),
        (3, True, [3, 4]),
        (7, True, [7]),
        (9, True, [7]),
        (-1, False, [7]),
        (1, True, [1] * 7),
        (4, True, [7]),
    ],
)
def test_split_lengths(size, merge_last, lengths):
    parts = list(Batch(a=np.arange(7)).split(size, shuffle=False, merge_last=merge_last))
    assert [len(part) for part in parts] == lengths
    assert np.concatenate([part.a for part in parts]).tolist() == list(range(7))


def test_split_shuffles_with_numpys_generator():
    np.random.seed(3)
    order = np.random.permutation(7)
    np.random.seed(3)
    assert np.concatenate([part.a for part in Batch(a=np.arange(7)).split(3)]).tolist() == order.tolist()


def test_split_of_no_rows():
    assert list(Batch(a=np.zeros(0)).split(-1)) == list(Batch(a=np.zeros(0)).split(3)) == []


@pytest.mark.parametrize("size", [0, -2])
def test_split_sizes_are_positive(size):
    with pytest.raises(AssertionError, match=f"got size={size}"):
        next(Batch(a=[1]).split(size))


# -- arithmetic --------------------------------------------------------------------------------------------------------


def test_batches_are_added_by_key():
    left, right = Batch(a=[1, 2], b={"c": [10.0], "d": {}}), Batch(b={"d": {}, "c": [0.5]}, a=[5, 6])
    assert repr(left + right) == repr(Batch(a=[6, 8], b={"c": [10.5], "d": {}}))
    assert left.a.tolist() == [1, 2]
    left += right
    assert left.a.tolist() == [6, 8]


def test_batches_of_other_names_are_added_in_order():
    with pytest.warns(UserWarning, match="added in their order"):
        total = Batch(a=[1], b=[0.5]) + Batch(c=[10], d=[20])
    assert repr(total) == repr(Batch(a=[11], b=[20.5]))


@pytest.mark.parametrize("other", [Batch(a=[1], b=[2]), Batch()])
def test_batches_of_different_fields_are_not_added(other):
    with pytest.raises(ValueError, match="different fields"):
        Batch(a=[1]) + other


def test_numbers():
    batch = Batch(a=[1.0, 2.0], b={"c": torch.ones(1), "d": {}})
    assert repr(((batch + 1) * 3) / 2) == repr(Batch(a=[3.0, 4.5], b={"c": torch.full((1,), 3.0), "d": {}}))
    assert (batch + np.float32(1)).a.tolist() == [2, 3]
    array = batch.a
    batch *= 2
    batch /= 4
    assert batch.a is array
    assert array.tolist() == [0.5, 1.0]


def test_only_batches_and_numbers_are_added():
    for other in ("x", None, [1], np.ones(2)):
        with pytest.raises(TypeError, match="can be added to a Batch"):
            Batch(a=[1, 2]) + other


@pytest.mark.parametrize("operation", [lambda b, x: b * x, lambda b, x: b / x])
def test_only_numbers_multiply(operation):
    for other in ("x", None, Batch(a=[1, 2]), np.ones(2)):
        with pytest.raises(AssertionError, match="by a number"):
            operation(Batch(a=[1, 2]), other)


def test_integers_do_not_become_fractions():
    with pytest.raises(TypeError, match="casting"):
        Batch(a=[1, 2]) / 2


def test_numpy_reductions():
    mean = np.mean(Batch(a=[1.0, 2.0], b=np.ones((2, 3))))
    assert repr(mean) == repr(Batch(a=1.5, b=np.ones(3)))
    assert np.sum(Batch(a=[1.0, 2.0])).a == 3


# -- conversions -------------------------------------------------------------------------------------------------------


def test_to_torch_and_back_in_place_and_in_the_same_memory():
    array = np.zeros(3)
    batch = Batch(a=array, b={"c": [1, 2]}, d=2.5)
    assert batch.to_torch() is batch
    assert (batch.a.dtype, batch.b.c.dtype, batch.d.dtype) == (torch.float64, torch.int64, torch.float64)
    batch.a[0] = 1
    assert batch.to_numpy() is batch
    assert array[0] == 1
    assert isinstance(batch.d, np.ndarray)
    batch.to_torch_(dtype=torch.float32, device="cpu")
    assert {batch.a.dtype, batch.b.c.dtype, batch.d.dtype} == {torch.float32}
    batch.to_numpy_()
    assert batch.b.c.dtype == np.float32


def test_to_torch_converts_all_or_nothing():
    batch = Batch(a=[1, 2], b={"c": "text"})
    with pytest.raises(TypeError, match="'text'"):
        batch.to_torch()
    assert isinstance(batch.a, np.ndarray)


def test_to_numpy_of_tensors_with_gradients():
    batch = Batch(a=torch.ones(2, requires_grad=True))
    batch.to_numpy()
    assert batch.a.tolist() == [1, 1]


def test_a_tensor_does_not_write_to_a_read_only_array():
    array = np.zeros(2)
    array.flags.writeable = False
    batch = Batch(a=array, b=np.arange(3)[::-1])
    batch.to_torch()
    batch.a[0] = 1
    assert array[0] == 0
    assert batch.b.tolist() == [2, 1, 0]


# -- many batches ------------------------------------------------------------------------------------------------------


def test_cat():
    got = Batch.cat(
        [Batch(a=[1], b={"c": torch.zeros(1, 2)}), {"a": [2, 3], "b": {"c": torch.ones(2, 2)}}, Batch(), {}]
    )
    assert got.a.tolist() == [1, 2, 3]
    assert got.b.c.tolist() == [[0, 0], [1, 1], [1, 1]]
    batch = Batch(a=[0])
    batch.cat_(Batch(a=[4]))
    batch.cat_([{"a": [5]}])
    batch.cat_([])
    assert batch.a.tolist() == [0, 4, 5]


def test_cat_fills_what_is_missing():
    one = Batch(a=np.ones((3, 4), "f4"), b={"c": [1, 2, 3], "r": {}}, s=["x", "y", "z"])
    two = Batch(t=torch.ones(2, 2), b={"d": [True, True]}, r={})
    got = Batch.cat([one, two])
    assert got.a.dtype == np.float32
    assert got.a.sum(1).tolist() == [4, 4, 4, 0, 0]
    assert got.b.c.tolist() == [1, 2, 3, 0, 0]
    assert got.b.d.tolist() == [False] * 3 + [True] * 2
    assert got.s.tolist() == ["x", "y", "z", None, None]
    assert got.t.tolist() == [[0, 0]] * 3 + [[1, 1]] * 2
    assert got.r.is_empty()
    assert got.b.r.is_empty()


def test_cat_onto_other_fields_is_cat_of_all():
    batch = Batch(a=[1])
    batch.cat_([Batch(b=[2]), Batch(a=[3], b=[4])])
    assert batch.to_dict()["a"].tolist() == [1, 0, 3]
    assert batch.b.tolist() == [0, 2, 4]


def test_cat_of_empty_nested_batches_counts_no_rows():
    assert Batch.cat([Batch(a={"b": {}}), Batch(a={"b": [1, 2]})]).a.b.tolist() == [1, 2]


@pytest.mark.parametrize(
    "batches",
    [
        [1],
        [Batch(a=1), Batch(a=[1])],
        [Batch(a=[1], b="text")],
        [Batch(a=np.zeros((2, 3))), Batch(a=np.zeros((2, 4)))],
        [Batch(a=np.zeros((2, 3))), Batch(a={"b": [1]})],
        [Batch(a=[1, 2], b=[1]), Batch(b=[1])],
    ],
)
def test_cat_refuses(batches):
    batch = Batch(a=[7])
    with pytest.raises(ValueError):
        batch.cat_(batches)
    assert batch.a.tolist() == [7]


def test_cat_onto_a_single_value_is_refused():
    with pytest.raises(TypeError):
        Batch(a=1).cat_([Batch(a=[1])])


def test_stack():
    got = Batch.stack([Batch(a=1, b={"c": torch.zeros(2)}, s="x"), {"a": 2.5, "b": {"c": torch.ones(2)}, "s": "y"}, {}])
    assert got.a.tolist() == [1, 2.5]
    assert got.b.c.tolist() == [[0, 0], [1, 1]]
    assert got.s.tolist() == ["x", "y"]
    assert Batch.stack([Batch(a=[1, 2]), Batch(a=[3, 4])], axis=1).a.tolist() == [[1, 3], [2, 4]]
    batch = Batch(a=1)
    batch.stack_([Batch(a=2)])
    batch.stack_([Batch()])
    assert batch.a.tolist() == [1, 2]


def test_stack_fills_what_is_missing():
    got = Batch.stack([Batch(a=1, r={}, b={"c": 2}), Batch(a=0.5, s="x", b={"d": torch.ones(2)}), Batch(r={})])
    assert got.a.tolist() == [1, 0.5, 0]
    assert got.s.tolist() == [None, "x", None]
    assert got.b.c.tolist() == [2, 0, 0]
    assert got.b.d.tolist() == [[0, 0], [1, 1], [0, 0]]
    assert got.r.is_empty()


def test_a_padded_field_takes_the_common_dtype():
    assert Batch.stack([{"a": 1}, {"b": 1}, {"a": 0.5}]).a.tolist() == [1, 0, 0.5]
    assert Batch.cat([{"a": [1]}, {"b": [1]}, {"a": [0.5]}]).a.tolist() == [1, 0, 0.5]


def test_fields_keep_the_order_of_their_appearance():
    parts = [Batch(z=[1], a=[1]), Batch(q=[1], a=[1], z=[1]), Batch(b=[1])]
    assert list(Batch.cat(parts).keys()) == list(Batch.stack(parts).keys()) == ["z", "a", "q", "b"]


@pytest.mark.parametrize("shapes", [((3,), (4,)), ((2, 3), (2, 4)), ((2,), (2, 1)), ((), (2,))])
def test_different_shapes_stack_to_objects_with_a_warning(shapes):
    with pytest.warns(UserWarning, match="different shapes"):
        got = Batch.stack([Batch(a=np.zeros(shape)) for shape in shapes]).a
    assert got.dtype == object
    assert [entry.shape for entry in got] == list(shapes)


def test_stack_refuses():
    with pytest.raises(ValueError, match=r"'a' is missing in some.*axis=1"):
        Batch.stack([Batch(a=np.zeros((2, 2))), Batch(b=np.zeros((2, 2)))], axis=1)
    with pytest.raises(ValueError, match="got int"):
        Batch.stack([1])
    with pytest.raises(ValueError, match="axis 3"):
        Batch.stack([Batch(a=[1]), Batch(a=[2])], axis=3)
    with pytest.raises(RuntimeError):
        Batch.stack([Batch(a=torch.zeros(2)), Batch(a=torch.zeros(3))])


def test_empty():
    batch = Batch(a=[1.0, 2.0], b={"c": torch.ones(2), "d": {}}, s=["x", "y"], n=None)
    got = Batch.empty(batch, 0)
    assert got.a.tolist() == [0, 2]
    assert got.b.c.tolist() == [0, 1]
    assert got.s.tolist() == [None, "y"]
    assert batch.a.tolist() == [1, 2]
    assert batch.empty_() is batch
    assert batch.a.tolist() == [0, 0]
    assert batch.s.tolist() == [None, None]
    assert batch.n is None


def test_emptying_a_row_replaces_its_values_with_a_warning():
    row = Batch(a=[1.5], s=["x"])[0]
    with pytest.warns(UserWarning, match="single value of field '[as]'"):
        row.empty_()
    assert row.a == 0
    assert row.s is None


def test_create_value():
    like = Batch(
        a=np.ones((2, 3), "f4"), b={"c": torch.ones(2, dtype=torch.int32), "d": {}}, s="x", n=np.int64(1), o=["p", "q"]
    )
    got = create_value(like, 4)
    assert (got.a.shape, got.a.dtype, got.a.any()) == ((4, 2, 3), np.float32, False)
    assert (got.b.c.shape, got.b.c.dtype) == ((4, 2), torch.int32)
    assert got.b.d.is_empty()
    assert got.s.tolist() == [None] * 4
    assert got.n.tolist() == [0] * 4
    assert got.o.shape == (4, 2)
    assert create_value(np.ones((2, 3)), 4, stack=False).shape == (4, 3)
    with pytest.raises(TypeError, match="single value"):
        create_value(1.5, 4, stack=False)


def test_alloc_by_keys_diff():
    meta = Batch(a=np.ones(3), b={"c": np.ones(3)}, e={})
    alloc_by_keys_diff(meta, Batch(a=2, b={"c": 1, "d": [1.0, 2.0]}, e={"f": True}, g="x"), 3)
    assert meta.a.tolist() == [1, 1, 1]
    assert meta.b.d.tolist() == [[0, 0]] * 3
    assert meta.e.f.tolist() == [False] * 3
    assert meta.g.tolist() == [None] * 3


# -- around it ---------------------------------------------------------------------------------------------------------


def test_a_batch_is_a_batch_protocol():
    assert isinstance(step(), BatchProtocol)
    assert not isinstance({}, BatchProtocol)


def test_batch_works_without_torch():
    code = """
import sys
sys.modules["torch"] = None
import copy, pickle
from rlfast.data import Batch, to_numpy
b = Batch(a=[1, 2], b={"c": ["x", "y"]}, d={})
b = pickle.loads(pickle.dumps(copy.deepcopy(Batch.cat([b, b, {"e": [1.0]}]))))
b.to_numpy(); b[0] = {"a": 3}; b.empty_(1)
print(to_numpy(b).a.tolist(), len(Batch.stack(list(b))))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[3, 0, 1, 2, 0] 5\n", "")


def test_names_of_the_module():
    assert rlfast.data.batch.create_value is create_value
    with pytest.raises(AttributeError, match="nonsense"):
        rlfast.data.batch.nonsense


def test_nothing_warns_in_a_step():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = Batch.stack([step(), step()])
    assert (rows.obs.shape, rows.rew.tolist(), rows.terminated.dtype) == ((2, 4), [0.5, 0.5], bool)


def test_a_hidden_state_keeps_its_structure():
    """A hidden state of nested tuples and lists is stored under one name."""
    h, c = torch.zeros(3, 2), np.zeros((3, 4))
    for batch in (Batch(state=(h, c)), Batch({"state": (h, c)}), Batch(state={"deep": (h, [torch.ones(3)])})):
        deep = batch.state.deep if isinstance(batch.state, Batch) else batch.state
        assert type(deep) is tuple
        assert deep[0] is h
        for copied in (copy.deepcopy(batch), pickle.loads(pickle.dumps(batch)), Batch(batch)):
            assert type(copied.state) is type(batch.state)
    batch = Batch()
    batch.state = (h, h)
    batch.update(other=[h, h])
    assert type(batch.state) is tuple
    assert batch.other.shape == (2, 3, 2)
    batch["state"] = [h, h]
    assert type(batch.state) is list


@pytest.mark.parametrize("value", [[np.zeros(2), np.ones(2)], (1, 2), [3.0], ()])
def test_other_fields_of_that_name_are_arrays(value):
    np.testing.assert_array_equal(Batch(state=value).state, np.asarray(value), strict=True)


def test_a_keyword_dict_of_a_caller_in_c_stays_its_own():
    """The caller may hold the only reference to the dict and use it again."""
    api = ctypes.PyDLL(None)
    pointer = ctypes.c_void_p
    api.PyDict_New.restype = api.PyObject_Call.restype = pointer
    api.PyObject_Call.argtypes = [ctypes.py_object, ctypes.py_object, pointer]
    api.PyDict_SetItemString.argtypes = [pointer, ctypes.c_char_p, ctypes.py_object]
    api.PyDict_Size.argtypes = api.Py_DecRef.argtypes = [pointer]
    api.PyDict_GetItemString.argtypes, api.PyDict_GetItemString.restype = [pointer, ctypes.c_char_p], pointer
    value = object()
    keywords = pointer(api.PyDict_New())
    api.PyDict_SetItemString(keywords, b"number", 3.5)
    api.PyDict_SetItemString(keywords, b"thing", value)
    held = api.PyDict_GetItemString(keywords, b"number")
    made = pointer(api.PyObject_Call(Batch, (), keywords))
    batch = ctypes.cast(made, ctypes.py_object).value
    batch.other = 1
    assert api.PyDict_Size(keywords) == 2
    assert api.PyDict_GetItemString(keywords, b"number") == held
    assert set(batch.keys()) == {"number", "thing", "other"}
    api.Py_DecRef(keywords)
    assert batch.number == 3.5
    api.Py_DecRef(made)
