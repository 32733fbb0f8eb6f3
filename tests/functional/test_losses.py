import itertools
import math

import pytest
import torch

from rlfast.functional.losses import (
    bootstrapped_return,
    clipped_surrogate_loss,
    cross_entropy,
    double_q_value,
    fraction_gradient,
    huber_loss,
    max_value,
    policy_gradient_loss,
    projected_distribution,
    quantile_huber,
    smoothed_action,
    soft_value,
    squared_loss,
    surrogate_loss,
    td_error,
    temperature_loss,
    value_loss,
)

ONLINE = torch.tensor([[1.0, 5.0, 2.0], [0.0, -1.0, 3.0]])
TARGET = torch.tensor([[9.0, 4.0, 7.0], [1.0, 8.0, 2.0]])


def test_double_q_evaluates_online_choice():
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
def test_value_after_termination_is_ignored(value):
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
    # in Tianshou, prioritized replay lost its correction as soon as the loss was Huber's
    assert huber_loss(ERROR, WEIGHT).item() == pytest.approx((0.125 + 0.25 + 0.625 + 0.0) / 4)


def test_huber_loss_clips_the_gradient_at_the_weight():
    error = ERROR.clone().requires_grad_()
    huber_loss(error, WEIGHT).backward()
    assert (4 * error.grad).tolist() == pytest.approx([0.5, -0.5, 0.25, 0.0])


RATIO = torch.tensor([1.5, 1.5, 0.5, 0.5, 5.0])
ADVANTAGE = torch.tensor([1.0, -1.0, 2.0, -2.0, -1.0])


@pytest.mark.parametrize(
    ("dual_clip", "objectives"),
    [(None, [1.2, -1.5, 1.0, -1.6, -5.0]), (3.0, [1.2, -1.5, 1.0, -1.6, -3.0]), (1.2, [1.2, -1.2, 1.0, -1.6, -1.2])],
)
def test_clipped_surrogate_loss_by_hand(dual_clip, objectives):
    loss = clipped_surrogate_loss(RATIO.log(), torch.zeros(5), ADVANTAGE, 0.2, dual_clip)
    assert loss.item() == pytest.approx(-sum(objectives) / 5)


def test_surrogate_loss_by_hand():
    new, old = torch.tensor([math.log(3.0), 0.0]), torch.tensor([math.log(2.0), math.log(4.0)])
    assert surrogate_loss(new, old, torch.tensor([4.0, -8.0])).item() == pytest.approx(-(1.5 * 4 - 0.25 * 8) / 2)
    each = torch.tensor([[math.log(3.0), 0.0]])  # two dimensions of one action
    assert surrogate_loss(each, torch.zeros(1, 2), torch.tensor([2.0])).item() == pytest.approx(-(3 * 2 + 1 * 2) / 2)


def test_the_clip_stops_the_gradient():
    log_prob = RATIO.log().requires_grad_()
    clipped_surrogate_loss(log_prob, torch.zeros(5), ADVANTAGE, 0.2, dual_clip=3.0).backward()
    assert (-5 * log_prob.grad).tolist() == pytest.approx([0.0, -1.5, 1.0, 0.0, 0.0])  # ratio * advantage, or none


@pytest.mark.parametrize("eps_clip", [0.0, 0.2, 1.5])
def test_clipped_surrogate_loss_and_gradient(eps_clip):
    torch.manual_seed(0)
    log_prob = torch.randn(1000).requires_grad_()
    old, advantage = torch.randn(1000), torch.randn(1000)
    advantage[::10] = 0
    ratio = (log_prob - old).exp()
    literal = -torch.min(ratio * advantage, ratio.clip(1 - eps_clip, 1 + eps_clip) * advantage).mean()
    loss = clipped_surrogate_loss(log_prob, old, advantage, eps_clip)
    torch.testing.assert_close(loss, literal)
    torch.testing.assert_close(*torch.autograd.grad(loss, log_prob), *torch.autograd.grad(literal, log_prob))


def test_ratios_of_each_dimension_share_the_advantage():
    log_prob = torch.tensor([[0.0, math.log(2.0)], [math.log(0.5), 0.0]])
    loss = clipped_surrogate_loss(log_prob, torch.zeros(2, 2), torch.tensor([1.0, 10.0]))
    assert loss.item() == pytest.approx(-(1.0 + 1.2 + 5.0 + 10.0) / 4)


def test_value_loss_by_hand():
    value, returns, old = torch.tensor([1.0, 3.0, 0.9]), torch.tensor([2.0, 3.0, 1.0]), torch.tensor([1.5, 1.0, 1.0])
    assert value_loss(value, returns).item() == pytest.approx((1.0 + 0.0 + 0.01) / 3)
    clipped = [(2.0 - 1.3) ** 2, (3.0 - 1.2) ** 2, 0.1**2]  # against 1, 0, 0.01
    assert value_loss(value, returns, old, 0.2).item() == pytest.approx((1.0 + clipped[1] + clipped[2]) / 3)


def test_soft_value_by_hand_and_whose_gradient_flows():
    q1, q2 = torch.tensor([1.0, 4.0], requires_grad=True), torch.tensor([2.0, 3.0], requires_grad=True)
    log_prob = torch.tensor([-1.0, 2.0], requires_grad=True)
    value = soft_value(q1, q2, log_prob, torch.tensor(0.5))
    assert value.tolist() == [1.5, 2.0]
    value.sum().backward()
    assert (q1.grad.tolist(), q2.grad.tolist(), log_prob.grad.tolist()) == ([1.0, 0.0], [0.0, 1.0], [-0.5, -0.5])


def test_temperature_loss_by_hand_and_its_gradient():
    log_alpha, log_prob = torch.tensor([0.5], requires_grad=True), torch.tensor([1.0, -4.0], requires_grad=True)
    loss = temperature_loss(log_alpha, log_prob, target_entropy=-2.0)
    assert loss.item() == pytest.approx(0.5 * (1.0 + 6.0) / 2)
    loss.backward()
    assert log_alpha.grad.tolist() == [3.5]
    assert log_prob.grad is None


def test_defaults_are_those_of_the_papers():
    value, old, returns = torch.tensor([1.0]), torch.tensor([0.0]), torch.tensor([3.0])
    assert value_loss(value, returns, old).item() == pytest.approx((0.2 - 3) ** 2)
    assert value_loss(-value, -returns, old).item() == pytest.approx((0.2 - 3) ** 2)  # it is clipped from below as well
    assert huber_loss(torch.tensor([3.0])).item() == 2.5
    assert clipped_surrogate_loss(torch.tensor([1.0]), old, value).item() == pytest.approx(-1.2)
    assert clipped_surrogate_loss(torch.tensor([3.0]), old, -value).item() == pytest.approx(math.exp(3))  # not dual
    assert smoothed_action(old, torch.tensor([0.5])).item() == pytest.approx(0.1)
    assert smoothed_action(old, torch.tensor([9.0])).item() == 0.5


def test_ratios_of_each_dimension_are_of_new_to_old():
    log_prob, old = torch.tensor([[0.3, 0.1], [0.2, 0.4]]), torch.tensor([[0.1, 0.2], [0.4, 0.1]])
    advantage = torch.tensor([1.0, 2.0])
    expected = -(torch.exp(log_prob - old).clamp(0.5, 1.5) * advantage[:, None]).mean()
    assert clipped_surrogate_loss(log_prob, old, advantage, 0.5).item() == pytest.approx(expected.item())


def test_the_second_clip_leaves_good_actions_alone():
    log_prob, advantage = torch.tensor([0.2]).log(), torch.tensor([0.5])
    loss = clipped_surrogate_loss(log_prob, torch.zeros(1), advantage, 0.9, dual_clip=3.0)
    assert loss.item() == pytest.approx(-0.2 * 0.5)


def test_the_policy_gradient_by_hand():
    log_prob = torch.tensor([-1.0, -2.0, -4.0], requires_grad=True)
    loss = policy_gradient_loss(log_prob, torch.tensor([3.0, -1.0, 0.5]))
    assert loss.item() == pytest.approx((3.0 - 2.0 + 2.0) / 3)
    loss.backward()
    assert log_prob.grad.tolist() == pytest.approx([-1.0, 1 / 3, -0.5 / 3])
    of_each_dimension = torch.tensor([[-1.0, -3.0], [-2.0, 0.0], [-4.0, -2.0]])
    loss = policy_gradient_loss(of_each_dimension, torch.tensor([3.0, -1.0, 0.5]))
    assert loss.item() == pytest.approx((3.0 + 9.0 - 2.0 + 2.0 + 1.0) / 6)


# -- deterministic actors and distributions of returns -----------------------------------------------------------------
def test_target_noise_is_scaled_then_clipped():
    act, noise = torch.tensor([[0.9, -0.5], [0.0, 0.0]]), torch.tensor([[1.0, -3.0], [10.0, -10.0]])
    assert smoothed_action(act, noise, 0.5, 1.0).flatten().tolist() == pytest.approx([1.4, -1.5, 1.0, -1.0])
    assert smoothed_action(act, noise).flatten().tolist() == pytest.approx([1.1, -1.0, 0.5, -0.5])
    assert smoothed_action(act, noise, 0.5, 0.0).flatten().tolist() == pytest.approx([1.4, -2.0, 5.0, -5.0])
    assert smoothed_action(act, noise, 0.5, 0.25).flatten().tolist() == pytest.approx([1.15, -0.75, 0.25, -0.25])


def shared_out(values, probs, support):
    """Algorithm 1 of Bellemare et al., an atom at a time."""
    step, shares = support[1] - support[0], [0.0] * len(support)
    for value, prob in zip(values, probs, strict=True):
        place = (min(max(value, support[0]), support[-1]) - support[0]) / step
        low = min(int(place), len(support) - 2)
        shares[low] += prob * (low + 1 - place)
        shares[low + 1] += prob * (place - low)
    return shares


def test_projection_splits_between_nearest_atoms():
    torch.manual_seed(0)
    support = torch.linspace(-1.0, 2.0, 7)
    value, prob = 3 * torch.randn(20, 5), torch.rand(20, 5).softmax(1)
    projected = projected_distribution(value, prob, support)
    expected = [shared_out(*row, support.tolist()) for row in zip(value.tolist(), prob.tolist(), strict=True)]
    assert torch.allclose(projected, torch.tensor(expected), atol=1e-5)
    assert torch.allclose(projected.sum(1), torch.ones(20))


def test_cross_entropy_by_hand_and_its_gradient():
    target = torch.tensor([[0.25, 0.75], [1.0, 0.0], [0.0, 1.0]])
    prob = torch.tensor([[0.5, 0.5], [0.1, 0.9], [1.0, 0.0]], requires_grad=True)
    loss = cross_entropy(target, prob)
    assert loss.tolist() == pytest.approx([math.log(2), -math.log(0.1), -math.log(1e-8)])  # finite where q is 0
    loss[0].backward()
    assert prob.grad[0].tolist() == pytest.approx([-0.5, -1.5])


def test_quantile_regression_by_hand():
    theta = torch.tensor([[0.0, 1.0], [2.0, -1.0]], requires_grad=True)
    target, level = torch.tensor([[0.5, 3.0, -2.0], [2.0, 2.0, 2.0]]), torch.tensor([0.25, 0.75])
    loss, error = quantile_huber(theta, target, level)
    huber = [[[0.125, 2.5, 1.5], [0.125, 1.5, 2.5]], [[0.0, 0.0, 0.0], [2.5, 2.5, 2.5]]]
    slope = [[[0.25, 0.25, 0.75], [0.25, 0.75, 0.25]], [[0.25] * 3, [0.75] * 3]]
    both = [
        [sum(h * s for h, s in zip(hs, ss, strict=True)) / 3 for hs, ss in zip(*row, strict=True)]
        for row in zip(huber, slope, strict=True)
    ]
    assert loss.tolist() == pytest.approx([sum(row) for row in both])
    assert error.tolist() == pytest.approx([sum(sum(hs) / 3 for hs in row) for row in huber])
    assert not error.requires_grad
    loss[0].backward()
    # -(sum of slope times u clipped to 1) / 3, of each quantile
    assert theta.grad[0].tolist() == pytest.approx([-(0.25 * 0.5 + 0.25 - 0.75) / 3, -(-0.25 * 0.5 + 0.75 - 0.25) / 3])


@pytest.mark.parametrize(("rows", "quantiles", "targets"), [(7, 3, 5), (5, 300, 200), (2, 400, 400)])
def test_blocks_and_graph_equal_whole(rows, quantiles, targets, monkeypatch):
    theta, target = torch.randn(rows, quantiles, dtype=torch.double), 2 * torch.randn(rows, targets, dtype=torch.double)
    level, weight = torch.rand(rows, quantiles, dtype=torch.double), torch.rand(rows, dtype=torch.double)
    results = []
    for compiling in (False, True):
        monkeypatch.setattr("torch.compiler.is_compiling", lambda compiling=compiling: compiling)
        given = theta.clone().requires_grad_()
        loss, error = quantile_huber(given, target, level)
        (loss * weight).sum().backward()
        results.append([loss.detach(), error, given.grad])
    for ours, graph in zip(*results, strict=True):
        torch.testing.assert_close(ours, graph)
    pairs = target[:, None] - theta[:, :, None]
    huber = torch.where(pairs.abs() <= 1, 0.5 * pairs**2, pairs.abs() - 0.5)
    slope = (level[..., None] - (pairs < 0).double()).abs()
    torch.testing.assert_close(results[0][0], (slope * huber).mean(2).sum(1))
    torch.testing.assert_close(results[0][2], -weight[:, None] * (slope * pairs.clamp(-1, 1)).mean(2))


def test_levels_of_each_row_are_its_own():
    theta, target = torch.tensor([[0.0, 1.0], [0.0, 1.0]]), torch.tensor([[0.5, 3.0], [0.5, 3.0]])
    both, _ = quantile_huber(theta, target, torch.tensor([[0.25, 0.75], [0.5, 0.5]]))
    rows = [
        quantile_huber(theta[:1], target[:1], level)[0].item() for level in torch.tensor([[0.25, 0.75], [0.5, 0.5]])
    ]
    assert both.tolist() == pytest.approx(rows)


def test_the_gradient_of_levels_by_hand():
    inner, middle = torch.tensor([[2.0, 6.0]]), torch.tensor([[1.0, 3.0, 10.0]])
    assert fraction_gradient(inner, middle).tolist() == [[2 * 2 - 1 - 3, 2 * 6 - 3 - 10]]
    falling = fraction_gradient(-inner, -middle)  # as if they rose
    assert falling.tolist() == [[2 * 2 - 1 - 3, 2 * 6 - 3 - 10]]
    inner, middle = torch.tensor([[1.0, 2.0, 2.0]]), torch.tensor([[0.0, 1.5, 3.0, 5.0]])  # two that are equal
    assert fraction_gradient(inner, middle).tolist() == [[2 * 1 - 0 - 1.5, (2 - 1.5) - (2 - 3), -(2 - 3) + (2 - 5)]]


def test_the_gradient_of_levels_is_that_of_a_distance():
    """Of the quantile function tau squared, whose distance to steps at the middles is known."""

    def distance(tau):
        edges, total = [0.0, tau, 1.0], 0.0
        for low, high in itertools.pairwise(edges):
            middle = (low + high) / 2
            # the integral of |t^2 - middle^2| from low to high
            total += (high**3 - middle**3) / 3 - (high - middle) * middle**2
            total += (middle - low) * middle**2 - (middle**3 - low**3) / 3
        return total

    tau, step = 0.3, 1e-5
    expected = (distance(tau + step) - distance(tau - step)) / (2 * step)
    squares = torch.tensor([[tau**2]]), torch.tensor([[(tau / 2) ** 2, ((1 + tau) / 2) ** 2]])
    assert fraction_gradient(*squares).item() == pytest.approx(expected, abs=1e-4)
