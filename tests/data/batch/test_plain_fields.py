"""Fields that the native ``__init__`` converts by itself are those that Python code makes of the same values."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlfast.data import Batch

NUMBERS = (
    st.floats(allow_nan=False) | st.integers() | st.integers(-5, 5) | st.booleans() | st.sampled_from([2**63, -(2**63)])
)
SCALARS = st.sampled_from(
    [np.float32(1.5), np.float64(2.5), np.int8(3), np.bool_(True), np.float16(0.5), np.complex64(1j), np.str_("text")]
)
ARRAYS = st.sampled_from(
    [
        np.zeros(3),
        np.array(1),
        np.arange(6).reshape(2, 3),
        np.arange(6, dtype=np.float32).reshape(2, 3)[:, ::2],
        np.array([1.5], ">f8"),
        np.array([True, False]),
        np.array(["a", "b"]),
        np.array([None, 1], object),
        np.zeros((0, 2)),
    ]
)
LEAVES = NUMBERS | SCALARS | ARRAYS | st.none() | st.just("text")
KEYS = st.sampled_from(["a", "b", "state", "copy", "keys"])


def rows(example):
    """Returns lists and object arrays of dicts that are like one another, or nearly so."""
    alike = st.fixed_dictionaries({key: st.just(value) | NUMBERS for key, value in example.items()})
    several = st.lists(st.just(example) | alike | st.just({}), min_size=1, max_size=4)
    return several | several.map(objects)


def objects(values):
    array = np.empty(len(values), object)
    array[:] = values
    return array


VALUES = st.recursive(
    LEAVES | st.builds(Batch),
    lambda inner: (
        st.dictionaries(KEYS, inner, max_size=3)
        | st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(KEYS, NUMBERS | ARRAYS, min_size=1, max_size=2).flatmap(rows)
    ),
    max_leaves=8,
)


def described(value):
    """Returns types, dtypes, shapes and values at all depths."""
    if isinstance(value, Batch):
        return (type(value), [(key, described(inner)) for key, inner in value.items()])
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return (object, value.shape, [described(inner) for inner in value.ravel()])
        return (value.dtype, value.dtype.byteorder, value.shape, value.tolist())
    return (type(value), value)


def outcome(make):
    try:
        return described(make())
    except Exception as error:
        return type(error), str(error)


@pytest.mark.filterwarnings("ignore::UserWarning")
@settings(max_examples=400, deadline=None)
@given(VALUES)
def test_a_field_is_what_python_code_makes_of_it(value):
    assert outcome(lambda: Batch(field=value)) == outcome(lambda: Batch({"field": value}))


@pytest.mark.parametrize(
    "value",
    [
        1.5,
        None,
        {"a": 1.5, "b": {"c": True}},
        {"a": [1, 2.5], "b": (True,), "c": []},
        {1: 2},
        {"a": {2: 3}},
        {"state": ({},)},
        {"state": ({"h": np.zeros(3)},)},
        {"state": {"h": ({"c": np.zeros(3)},)}},
        [1, 2**63],
        [2**70],
        [{"a": 1}, {"a": 2.5}],
        [{"a": 1}, {"a": True}],
        [{"a": 1.0}, {"b": 1.0}],
        [{"a": 1.0}, {}],
        [{}, {}],
        [{"a": {}}, {"a": {}}],
        [{"a": {"b": 1}}, {"a": {"b": 2}}],
        ({"a": np.zeros(2)}, {"a": np.ones(2)}),
        ({"a": np.zeros(2)}, {"a": np.ones(3)}),
        ({"a": np.zeros(2)}, {"a": np.ones(2, np.float32)}),
        ({"a": np.array([1.0], ">f8")}, {"a": np.array([2.0], ">f8")}),
        ({"a": np.arange(8)[::2]}, {"a": np.arange(4)}),
        [{"a": np.float32(1)}, {"a": np.float32(2)}],
        [{"a": np.float32(1)}, {"a": 2.0}],
        [{"a": "text"}, {"a": "more"}],
        [{"a": None}, {"a": 1}],
        [{1: 2}, {1: 3}],
        objects([{"a": 1, "b": 2.5}, {"b": 3.5, "a": 4}]),
        objects([{"a": 1}, None]),
        objects([{"a": 1}, Batch(a=2)]),
        objects([]),
        objects([{"a": i} for i in range(6)])[::-2],
        objects([{"a": i} for i in range(4)]).reshape(2, 2),
        np.empty(2, object),
        Batch(a=1),
        [Batch(a=1), Batch(a=2)],
        {"state": [np.zeros(2), np.zeros(2)]},
        {"state": {"h": (np.zeros((1, 2)), np.zeros((1, 2)))}},
    ],
    ids=repr,
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_each_kind_of_value(value):
    assert outcome(lambda: Batch(field=value, rest=0.5)) == outcome(lambda: Batch({"field": value, "rest": 0.5}))


def test_batches_are_kept_and_dicts_are_not_shared():
    inner, given = Batch(a=1), {"a": 1, "b": {"c": 2}}
    batch = Batch(kept=inner, made=given)
    assert batch.kept is inner
    batch.made.a = 5
    batch.made.b.c = 6
    assert given == {"a": 1, "b": {"c": 2}}


def test_a_dict_that_holds_itself_is_no_endless_loop():
    loop = {}
    loop["again"] = loop
    with pytest.raises(RecursionError):
        Batch(loop=loop)
    nested = {}
    for _ in range(40):
        nested = {"inner": nested}
    assert described(Batch(field=nested)) == described(Batch({"field": nested}))


def test_a_subclass_makes_the_batches_of_rows_by_its_own_init():
    class Counted(Batch):
        made = 0

        def __init__(self, *args, **kwargs):
            type(self).made += 1
            super().__init__(*args, **kwargs)

    assert isinstance(Counted(info=[{"a": 1}, {"a": 2}]).info, Counted)
    assert Counted.made == 2
