import numpy as np
import pytest

from interrupts import points
from rlfast.data import Batch
from rlfast.data._leaves import Column, as_array, convert
from rlfast.data.schema import Schema, flatten, nest

ROW = {"obs": {"a": np.float32([1, 2]), "b": 3}, "act": 1, "rew": 1, "terminated": 0, "truncated": False}


def learned(**more):
    schema = Schema()
    schema.extend(schema.conform(ROW | more, None)[1])
    return schema


def test_flatten_and_nest_are_each_others_reverse():
    nested = {"obs": Batch(a=[1], b=Batch(c=[2], d=Batch())), "act": [3]}
    leaves, groups = flatten(nested | {"done": [True]})
    assert list(leaves) == [("obs", "a"), ("obs", "b", "c"), ("act",)]
    assert groups == {("obs", "b", "d")}
    assert nest(leaves, groups) == {"obs": {"a": [1], "b": {"c": [2], "d": {}}}, "act": [3]}


def test_the_first_row_decides_the_columns():
    schema = learned(info={}, policy={"name": "x"})
    assert schema.numbers == {
        ("obs", "a"): Column(np.dtype("f4"), (2,)),
        ("obs", "b"): Column(np.dtype("i8"), ()),
        ("act",): Column(np.dtype("i8"), ()),
        ("rew",): Column(np.dtype("f8"), ()),
        ("terminated",): Column(np.dtype("?"), ()),
        ("truncated",): Column(np.dtype("?"), ()),
    }
    assert schema.objects == {("policy", "name"): Column(np.dtype("O"), ())}
    assert schema.groups == {("info",)}


@pytest.mark.parametrize(
    "value",
    [
        None,
        "text",
        {1, 2},
        object(),
        np.array("text"),
        np.array(["a", "b"]),
        ["a", None],
        [[1], [2, 3]],
        np.datetime64(1, "D"),
    ],
)
def test_what_is_no_number_is_an_object(value):
    assert as_array(value).dtype == object


def test_big_endian_numbers_become_native():
    array = as_array(np.array([1, 2], ">i4"))
    assert array.dtype.isnative
    assert array.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("given", "dtype"),
    [
        (np.array([1, -2]), "f4"),
        (np.array([1.0, -2.0]), "i8"),
        (np.array([0, 255]), "u1"),
        (np.array([0.1, np.inf, np.nan]), "f4"),
        (np.array([0, 1]), "?"),
        (np.array([True, False]), "f8"),
        (np.array([2**53]), "f8"),
        (np.array([2**63], np.uint64), "f8"),
    ],
)
def test_values_that_survive_are_converted(given, dtype):
    result = convert(given, np.dtype(dtype), ("x",))
    assert result.dtype == dtype
    assert np.allclose(result.astype(given.dtype), given, equal_nan=True)


@pytest.mark.parametrize(
    ("given", "dtype", "named"),
    [
        (np.array([1.0, 0.5]), "i8", r"0\.5 at \(1,\)"),
        (np.array([np.nan]), "i8", "nan"),
        (np.array([256]), "u1", "256"),
        (np.array([-1]), "u8", "-1"),
        (np.array([2**63], np.uint64), "i8", "9223372036854775808"),
        (np.array([2**53 + 1]), "f8", "9007199254740993"),
        (np.array([1e300]), "f4", "1e.300"),
        (np.array([2]), "?", "2"),
        (np.array([1 + 2j]), "f8", "2j"),
        (np.array(["a"], object), "f8", "an object"),
    ],
)
def test_values_that_would_be_lost_are_refused_with_their_place(given, dtype, named):
    with pytest.raises(TypeError, match=named):
        convert(given, np.dtype(dtype), ("obs", "x"))


def test_a_late_key_is_a_new_column_and_a_missing_one_is_zero():
    schema = learned(info={"lives": 3})
    leaves, added = schema.conform(ROW | {"info": {"name": "x"}, "logp": 0.5}, None)
    assert added.numbers == {("logp",): Column(np.dtype("f8"), ())}
    assert added.objects == {("info", "name"): Column(np.dtype("O"), ())}
    assert leaves["info", "lives"] == 0


def test_conform_changes_nothing():
    schema = Schema()
    schema.conform(ROW, None)
    assert not schema


@pytest.mark.parametrize("key", ["obs", "act", "rew", "terminated", "truncated"])
def test_a_missing_field_is_named(key):
    row = {name: value for name, value in ROW.items() if name != key}
    for schema in (Schema(), learned()):
        with pytest.raises(KeyError, match=key) as missing:
            schema.conform(row, None)
        assert isinstance(missing.value, AssertionError), "scripts for Tianshou catch that"


def test_a_missing_leaf_of_the_observation_is_zero_and_named_once():
    schema, row = learned(), ROW | {"obs": {"a": np.float32([1, 2])}}
    with pytest.warns(UserWarning, match=r"obs\.b is not given"):
        leaves, _ = schema.conform(row, None)
    assert leaves["obs", "b"] == 0
    assert schema.conform(row, None)[0]["obs", "b"] == 0


@pytest.mark.parametrize(
    "change",
    [
        {"obs": {"a": np.float32([1, 2, 3]), "b": 3}},
        {"obs": {"a": np.float32([1, 2]), "b": {"c": 1}}},
        {"act": {"x": 1}},
        {"act": [1, 2]},
        {"terminated": [False, True]},
    ],
)
def test_another_shape_or_structure_is_refused(change):
    with pytest.raises((ValueError, KeyError)):
        learned().conform(ROW | change, None)


def test_flags_and_rewards_are_numbers_from_the_start():
    with pytest.raises(TypeError, match="rew must be a number"):
        Schema().conform(ROW | {"rew": "high"}, None)
    with pytest.raises(ValueError, match="one flag for each row"):
        Schema().conform(ROW | {"truncated": [True, False]}, None)


def test_every_leaf_has_as_many_rows_as_asked_for():
    row = {key: np.zeros((2, 3)) for key in ("obs", "act")} | dict.fromkeys(
        ("rew", "terminated", "truncated"), np.zeros(2)
    )
    Schema().conform(row, 2)
    with pytest.raises(ValueError, match="obs has shape"):
        Schema().conform(row | {"obs": np.zeros((3, 3))}, 2)
    with pytest.raises(ValueError, match="act has shape"):
        Schema().conform(row | {"act": np.zeros((3, 3))}, 2)
    assert Schema().conform(row | {"act": 1}, 2)[0]["act",].tolist() == [1, 1]  # one for all


def test_work_is_proportional_to_the_number_of_columns():
    def work(columns: int) -> int:
        row = ROW | {"obs": {f"c{k}": 0.0 for k in range(columns)}}
        schema = Schema()
        schema.extend(schema.conform(row, None)[1])
        return points(lambda: schema.conform(row, None))

    assert work(400) < 3 * work(200)
