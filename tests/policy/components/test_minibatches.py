import pytest
import torch

from rlfast.policy.components.minibatches import minibatches_of, summaries_of


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


@pytest.mark.parametrize("steps", [1, 3])
def test_a_summary_is_that_of_all_steps(steps):
    losses = [{"a": torch.tensor(float(step)), "b": torch.tensor(2.0 * step)} for step in range(steps)]
    summaries = summaries_of(losses)
    assert [*summaries] == ["a", "b"]
    assert (summaries["a"].mean, summaries["a"].max) == ((steps - 1) / 2, steps - 1)
    assert (summaries["b"].mean, summaries["b"].min) == (steps - 1, 0.0)
