import math

import pytest
import torch

from rlfast.functional.offline import (
    autoencoder_loss,
    conservative_gap,
    discriminator_loss,
    expectile_loss,
    exponential_weight,
    likely_actions,
    regression_weight,
    regularized_actor_loss,
    softened_minimum,
    squared_distance,
)


def test_the_actors_loss_of_td3_bc_by_hand():
    q = torch.tensor([2.0, -4.0], requires_grad=True)
    act, data = torch.tensor([[1.0, 0.0], [0.0, 0.5]]), torch.tensor([[0.0, 0.0], [0.0, 0.0]])
    loss = regularized_actor_loss(q, act, data, alpha=1.5)  # a scale of 1.5 / 3
    assert loss.item() == pytest.approx(-0.5 * -1.0 + 1.25 / 4)
    loss.backward()
    assert q.grad.tolist() == [-0.25, -0.25]  # none through the scale


def test_squared_distance_is_a_sum_over_dimensions():
    act, data = torch.tensor([[[1.0, 2.0], [0.0, 3.0]]]), torch.tensor([[[0.0, 0.0], [0.0, 1.0]]])
    assert squared_distance(act, data).tolist() == [1 + 4 + 4]


def test_expectile_loss_weighs_both_sides():
    error = torch.tensor([0.5, -2.0, 0.0])
    assert expectile_loss(error, 0.9).item() == pytest.approx((0.9 * 0.25 + 0.1 * 4) / 3)
    assert expectile_loss(error, 0.5).item() == pytest.approx(0.5 * 4.25 / 3)


def test_weights_of_advantages():
    advantage = torch.tensor([-1.0, 0.0, 2.0])
    assert exponential_weight(advantage, 0.5, 2.0).tolist() == pytest.approx([math.exp(-0.5), 1.0, 2.0])
    assert exponential_weight(torch.tensor([1e6])).item() == pytest.approx(100.0)  # finite
    assert regression_weight(advantage, "exp", beta=2.0, largest=2.0).tolist() == pytest.approx(
        [math.exp(-0.5), 1.0, 2.0]
    )
    assert regression_weight(advantage, "binary").tolist() == [0.0, 0.0, 1.0]
    assert regression_weight(advantage, "all").tolist() == [1.0, 1.0, 1.0]


def test_conservative_gap_by_hand():
    q, data = torch.tensor([[0.0, math.log(3.0)], [1.0, 1.0]]), torch.tensor([0.0, 1.0])
    assert conservative_gap(q, data).item() == pytest.approx((math.log(4) + math.log(2)) / 2)
    warm = conservative_gap(q, data, temperature=2.0)
    assert warm.item() == pytest.approx((2 * math.log(1 + math.sqrt(3)) + 2 * math.log(2)) / 2)


def test_softened_minimum_by_hand():
    assert softened_minimum(torch.tensor([2.0, 5.0]), torch.tensor([4.0, 1.0]), 0.75).tolist() == [2.5, 2.0]


def test_autoencoder_loss_by_hand():
    std, mean = torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0, 1.0]])
    divergence = (0 + (-math.log(2) + (4 + 1 - 1) / 2)) / 2
    loss = autoencoder_loss(torch.tensor([[1.0, 3.0]]), torch.tensor([[0.0, 3.0]]), mean, std)
    assert loss.item() == pytest.approx(0.5 + divergence / 2)


def test_likely_actions():
    logits = torch.log(torch.tensor([[0.5, 0.2, 0.3], [0.05, 0.9, 0.05]]))
    assert likely_actions(logits, 0.5).tolist() == [[True, False, True], [False, True, False]]
    assert likely_actions(logits, 1.0).tolist() == [[True, False, False], [False, True, False]]  # the best alone
    illegal = torch.tensor([[0.0, -torch.inf, -50.0]])
    assert likely_actions(illegal, 0.0).tolist() == [[True, False, True]]


def test_discriminator_loss_by_hand():
    policy, expert = torch.tensor([0.0, math.log(3.0)]), torch.tensor([math.log(3.0)])
    assert discriminator_loss(policy, expert).item() == pytest.approx((math.log(2) + math.log(4)) / 2 - math.log(3 / 4))


def test_defaults():
    error = torch.tensor([0.5, -2.0])
    assert torch.equal(expectile_loss(error), expectile_loss(error, 0.7))
    assert torch.equal(exponential_weight(error), exponential_weight(error, 3.0, 100.0))
    assert torch.equal(conservative_gap(error[None], error[:1]), conservative_gap(error[None], error[:1], 1.0))
    assert torch.equal(softened_minimum(error, -error), softened_minimum(error, -error, 0.75))
    logits = torch.log(torch.tensor([[0.6, 0.2, 0.15, 0.05]]))  # 1/3 and 1/4 of the most likely
    assert likely_actions(logits).tolist() == [[True, True, False, False]]
    advantage = torch.tensor([0.5, 3.03])  # e to the power of the second is between 20 and 21
    assert regression_weight(advantage).tolist() == pytest.approx([math.exp(0.5), 20.0])
    q, act, data = torch.tensor([2.0]), torch.zeros(1, 1), torch.ones(1, 1)
    assert torch.equal(regularized_actor_loss(q, act, data), regularized_actor_loss(q, act, data, 2.5))


def test_binary_weights_keep_dtype():
    weight = regression_weight(torch.tensor([0.5, 0.0, -0.5], dtype=torch.float64), "binary")
    assert weight.dtype == torch.float64
    assert weight.tolist() == [1.0, 0.0, 0.0]
