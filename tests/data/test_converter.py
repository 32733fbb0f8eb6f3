import numpy as np
import pytest
import torch

from rlfast.data import Batch, to_numpy, to_torch, to_torch_as


def test_arrays_and_tensors_keep_their_memory():
    array, tensor = np.zeros(2), torch.zeros(2)
    assert to_numpy(array) is array
    to_torch(array)[0] = 1
    to_numpy(tensor)[0] = 1
    assert array[0] == tensor[0] == 1


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (1, np.array(1)),
        (np.float32(2), np.array(2, "f4")),
        (True, np.array(True)),
        ([1, 2], np.array([1, 2])),
        ([torch.zeros(2), torch.ones(2)], np.array([[0, 0], [1, 1]], "f4")),
        (torch.ones(2, requires_grad=True), np.ones(2, "f4")),
        (None, np.array(None)),
        ("text", np.array("text")),
        (["a", "b"], np.array(["a", "b"], dtype=object)),
    ],
)
def test_to_numpy(value, wanted):
    got = to_numpy(value)
    assert type(got) is np.ndarray
    assert (got.dtype, got.tolist()) == (wanted.dtype, wanted.tolist())


@pytest.mark.parametrize(
    ("value", "dtype", "wanted"),
    [
        (1, None, torch.tensor(1)),
        (np.float32(2), None, torch.tensor(2.0)),
        (True, None, torch.tensor(True)),
        ([1, 2], torch.float32, torch.tensor([1.0, 2.0])),
        (np.arange(2), torch.float64, torch.arange(2, dtype=torch.float64)),
        (torch.arange(2), torch.float32, torch.arange(2.0)),
        ([torch.zeros(2), torch.ones(2)], None, torch.tensor([[0.0, 0.0], [1.0, 1.0]])),
    ],
)
def test_to_torch(value, dtype, wanted):
    got = to_torch(value, dtype)
    assert got.dtype == wanted.dtype
    assert torch.equal(got, wanted)


@pytest.mark.parametrize("convert", [to_numpy, to_torch])
@pytest.mark.parametrize("kind", [dict, Batch])
def test_nested_values_are_copied(convert, kind):
    given = kind(a=np.zeros(2), b=Batch(c=torch.ones(2)))
    got = convert(given)
    got.a[0] = got.b.c[0] = 7
    if kind is Batch:
        assert given["a"][0] == 0
        assert given["b"].c[0] == 1
    wanted = np.ndarray if convert is to_numpy else torch.Tensor
    assert isinstance(got.a, wanted)
    assert isinstance(got.b.c, wanted)


@pytest.mark.parametrize("value", ["text", None, np.array(["a"]), ["a", "b"], {"a": "text"}, [1, None], {1, 2}])
def test_what_holds_no_numbers_is_no_tensor(value):
    with pytest.raises(TypeError, match="cannot make a tensor"):
        to_torch(value)


def test_keys_are_strings():
    with pytest.raises(AssertionError):
        to_torch({1: 2})


def test_to_torch_as():
    like = torch.zeros(1, dtype=torch.float16)
    assert to_torch_as(np.arange(3), like).dtype == torch.float16
    assert to_torch_as({"a": [1, 2]}, like).a.dtype == torch.float16
    with pytest.raises(AssertionError, match="got ndarray"):
        to_torch_as(np.arange(3), np.zeros(1))
