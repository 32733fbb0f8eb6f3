import json
from collections import Counter, OrderedDict, namedtuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rlfast.data.plain_data import is_plain, pack, unpack

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
keys = st.integers() | st.text() | st.booleans() | st.tuples(st.integers(), st.text())
trees = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.lists(inner, max_size=4).map(tuple) | st.dictionaries(keys, inner, max_size=4)
    ),
    max_leaves=20,
)


def same(a, b):
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(map(repr, a)) == list(map(repr, b)) and all(
            same(x, y) for x, y in zip(a.values(), b.values(), strict=True)
        )
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return repr(a) == repr(b)  # -0.0 is not 0.0, and True not 1


@settings(max_examples=200, deadline=None)
@given(trees)
def test_everything_comes_back_as_it_was(tree):
    text, arrays = pack(tree)
    json.loads(text)
    assert same(unpack(text, arrays), tree)


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), -0.0, 2**127 + 1, 5e-324, "~", {"~": "tuple"}, {1: {2: 3}}]
)
def test_odd_values(value):
    assert same(unpack(*pack([value]))[0], value)


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "u8", "f2", "f4", "f8", ">f8"])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_arrays_and_scalars(dtype, shape):
    array = np.ones(shape, dtype)
    back = unpack(*pack({"a": array, "s": array.dtype.type(1)}))
    np.testing.assert_array_equal(back["a"], array)
    assert back["a"].shape == shape
    assert type(back["s"]) is array.dtype.type
    fortran = np.asfortranarray(np.arange(6).reshape(2, 3))[:, ::-1]
    np.testing.assert_array_equal(unpack(*pack(fortran)), fortran)


def test_what_is_packed_is_a_copy():
    array, tensor = np.zeros(2), torch.zeros(2)
    text, arrays = pack([array, tensor])
    array += 1
    tensor += 1
    back = unpack(text, arrays)
    assert back[0].tolist() == back[1].tolist() == [0, 0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.uint8])
def test_tensors(dtype):
    tensor = torch.tensor([[0.5, 3.0], [1.0, 0.0]]).to(dtype).requires_grad_(dtype == torch.float32)
    back = unpack(*pack(tensor))
    assert back.dtype == dtype
    assert torch.equal(back, tensor)
    assert not back.requires_grad


def test_the_states_of_optimizers_schedulers_and_generators():
    weights = [torch.nn.Parameter(torch.ones(3))]
    optim = torch.optim.Adam(weights, lr=0.1, betas=(0.8, 0.9))
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optim, [2, 2, 5])
    weights[0].grad = torch.ones(3)
    optim.step()
    rng = np.random.default_rng(3)
    state = {"optim": optim.state_dict(), "lr": scheduler.state_dict(), "rng": rng.bit_generator.state}
    back = unpack(*pack(state))
    assert back["rng"] == state["rng"]
    assert back["lr"]["milestones"] == Counter({2: 2, 5: 1})
    assert type(back["lr"]["milestones"]) is Counter
    assert back["optim"]["param_groups"] == state["optim"]["param_groups"]
    assert torch.equal(back["optim"]["state"][0]["exp_avg"], state["optim"]["state"][0]["exp_avg"])


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"a": [1, object()]}, r"a\[1\] is a object, which is not plain data"),
        ({"x": {"y": np.array([None, object()])}}, r"x.y\[1\] is a object"),
        ([namedtuple("Pair", "a b")(1, 2)], "is a Pair"),  # noqa: PYI024
        ({1, 2}, "the value is a set"),
        (np.zeros(2, complex), "is a ndarray"),
    ],
)
def test_what_is_no_plain_data_is_refused(tree, message):
    with pytest.raises(TypeError, match=message):
        pack(tree)
    assert not is_plain(tree)


def test_an_ordered_dict_comes_back_as_a_dict():
    assert unpack(*pack(OrderedDict(b=1, a=2))) == {"b": 1, "a": 2}


@pytest.mark.parametrize(
    "text", ['{"~": "array"}', '{"~": "array", "name": "7"}', '{"~": "what", "name": "0"}', '{"~": "tuple"}']
)
def test_damaged_data(text):
    with pytest.raises(ValueError, match="damaged data"):
        unpack(text, {"0": np.zeros(1)})
