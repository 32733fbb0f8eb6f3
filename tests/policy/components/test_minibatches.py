import numpy as np
import pytest
import torch

from rlfast.data import Batch
from rlfast.policy.components.minibatches import minibatches_of, shuffled_minibatches, summaries_of


@pytest.mark.parametrize(
    ("size", "batch_size", "parts"),
    [
        (8, 3, [(0, 3), (3, 8)]),
        (6, 3, [(0, 3), (3, 6)]),
        (5, 3, [(0, 5)]),
        (2, 3, [(0, 2)]),
        (8, None, [(0, 8)]),
        (1, None, [(0, 1)]),
        (2, 1, [(0, 1), (1, 2)]),
    ],
)
def test_the_last_one_has_the_rest(size, batch_size, parts):
    assert [*minibatches_of(size, batch_size)] == [slice(*part) for part in parts]


def test_columns_of_any_kind_are_in_the_same_order():
    column, order = np.arange(5.0), np.array([3, 0, 4, 1, 2])
    columns = (column, torch.from_numpy(column), Batch(a=column), None)
    first, second = shuffled_minibatches(columns, order, 2, "cpu")
    for part, rows in ((first, [3.0, 0.0]), (second, [4.0, 1.0, 2.0])):
        array, tensor, batch, nothing = part
        assert (array.tolist(), tensor.tolist(), batch.a.tolist(), nothing) == (rows, rows, rows, None)


def test_tensors_may_be_on_another_device_than_arrays():
    columns = (np.arange(4), torch.zeros(4, 2, device="meta"))
    for array, tensor in shuffled_minibatches(columns, np.arange(4)[::-1].copy(), 2, torch.device("meta")):
        assert len(array) == 2
        assert (tensor.shape, tensor.device.type) == ((2, 2), "meta")


@pytest.mark.parametrize("steps", [1, 3])
def test_a_summary_is_that_of_all_steps(steps):
    losses = [{"a": torch.tensor(float(step)), "b": torch.tensor(2.0 * step)} for step in range(steps)]
    summaries = summaries_of(losses)
    assert [*summaries] == ["a", "b"]
    assert (summaries["a"].mean, summaries["a"].max) == ((steps - 1) / 2, steps - 1)
    assert (summaries["b"].mean, summaries["b"].min) == (steps - 1, 0.0)
