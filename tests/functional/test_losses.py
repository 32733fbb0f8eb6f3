import pytest
import torch

from rlfast.functional.losses import (
    bootstrapped_return,
    double_q_value,
    huber_loss,
    max_value,
    squared_loss,
    td_error,
)

ONLINE = torch.tensor([[1.0, 5.0, 2.0], [0.0, -1.0, 3.0]])
TARGET = torch.tensor([[9.0, 4.0, 7.0], [1.0, 8.0, 2.0]])


def test_the_target_network_rates_what_the_online_network_chooses():
    assert double_q_value(ONLINE, TARGET).tolist() == [4.0, 2.0]
    assert double_q_value(TARGET, ONLINE).tolist() == [1.0, -1.0]
    assert max_value(TARGET).tolist() == [9.0, 8.0]


def test_illegal_actions_are_never_chosen():
    illegal = torch.tensor([[False, True, False], [False, False, True]])
    online, target = (q.masked_fill(illegal, -torch.inf) for q in (ONLINE, TARGET))
    assert double_q_value(online, target).tolist() == [7.0, 1.0]
    assert max_value(target).tolist() == [9.0, 8.0]


def test_bootstrapped_return_by_hand():
    reward_sum = torch.tensor([[1.0], [3.0], [-2.0]])
    discount = torch.tensor([[0.5], [0.25], [0.0]])
    assert bootstrapped_return(reward_sum, discount, torch.tensor([[4.0], [8.0], [9.0]])).tolist() == [
        [3.0],
        [5.0],
        [-2.0],
    ]
    per_atom = bootstrapped_return(reward_sum, discount, torch.tensor([[4.0, 0.0]] * 3))
    assert per_atom.tolist() == [[3.0, 1.0], [4.0, 3.0], [-2.0, -2.0]]


@pytest.mark.pitfall("A2")
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf, 1e38])
def test_the_value_after_a_terminal_state_does_not_matter(value):
    assert bootstrapped_return(torch.tensor([2.0]), torch.tensor([0.0]), torch.tensor([value])).tolist() == [2.0]


def test_td_error_by_hand_and_its_gradient():
    q = ONLINE.clone().requires_grad_()
    error = td_error(q, torch.tensor([1, 2]), torch.tensor([7.0, 1.0]))
    assert error.tolist() == [2.0, -2.0]
    error.sum().backward()
    assert q.grad.tolist() == [[0.0, -1.0, 0.0], [0.0, 0.0, -1.0]]


ERROR = torch.tensor([0.5, -1.0, 3.0, -4.0])
WEIGHT = torch.tensor([1.0, 0.5, 0.25, 0.0])


def test_squared_loss_by_hand():
    assert squared_loss(ERROR).item() == pytest.approx((0.25 + 1 + 9 + 16) / 4)
    assert squared_loss(ERROR, WEIGHT).item() == pytest.approx((0.25 + 0.5 + 2.25) / 4)


def test_huber_loss_by_hand():
    assert huber_loss(ERROR).item() == pytest.approx((0.125 + 0.5 + 2.5 + 3.5) / 4)
    assert huber_loss(ERROR, delta=2.0).item() == pytest.approx((0.125 + 0.5 + 4.0 + 6.0) / 4)


def test_huber_loss_keeps_the_importance_weights():
    # inventory 6.14: prioritized replay lost its correction as soon as the loss was Huber's
    assert huber_loss(ERROR, WEIGHT).item() == pytest.approx((0.125 + 0.25 + 0.625 + 0.0) / 4)


def test_huber_loss_clips_the_gradient_at_the_weight():
    error = ERROR.clone().requires_grad_()
    huber_loss(error, WEIGHT).backward()
    assert (4 * error.grad).tolist() == pytest.approx([0.5, -0.5, 0.25, 0.0])
