"""The temperature by itself; what soft actor-critic does with it is in test_sac.py."""

import math

import pytest
import torch
from torch import nn

from rlfast.policy.components.temperature import AutoAlpha, FixedAlpha, OfTemperature, make_alpha
from rlfast.utils.optim import adam


def sgd(tensors):
    return torch.optim.SGD(tensors, lr=1.0)


@pytest.mark.parametrize("value", [0, 0.0, 0.25, 7])
def test_a_fixed_one_may_be_none_at_all(value):
    alpha = FixedAlpha(value)
    assert alpha.value.item() == value
    assert alpha.learn(torch.ones(2)) is None
    assert not alpha.value.requires_grad
    alpha.assign(0)
    assert alpha.value.item() == 0.0
    alpha.assign(torch.tensor([0.5]))
    assert alpha.value.item() == 0.5
    assert [*alpha.state_dict()] == []


@pytest.mark.parametrize("value", [-1e-9, -1, float("-inf")])
def test_a_fixed_one_is_not_negative(value):
    if value > float("-inf"):
        with pytest.raises(ValueError, match=f"^alpha must be 0 or more, got {value}$"):
            FixedAlpha(value)
    alpha = FixedAlpha(0.5)
    for wrong in (value, float("inf"), float("nan")):
        with pytest.raises(ValueError, match=f"^alpha must be 0 or more, got {wrong}$"):
            alpha.assign(wrong)
    assert alpha.value.item() == 0.5


def test_a_fixed_one_follows_the_precision():
    assert FixedAlpha(0.1).double().value.dtype == torch.float64


@pytest.mark.parametrize("given", [0, 0.5, torch.zeros(1, requires_grad=True), nn.Parameter(torch.tensor([[0.5]]))])
def test_a_learned_one_takes_a_step(given):
    alpha = AutoAlpha(-2, given, sgd)
    start = alpha.log_alpha.item()
    assert start == (0.5 if isinstance(given, float | nn.Parameter) else 0.0)
    loss = alpha.learn(torch.tensor([1.0, 5.0]))
    assert loss.item() == pytest.approx(-start * (3.0 - 2.0))
    assert not loss.requires_grad
    assert alpha.log_alpha.item() == pytest.approx(start + 1.0)
    assert alpha.value.item() == pytest.approx(torch.tensor(start + 1.0).exp().item())
    assert [*alpha.state_dict()] == ["log_alpha"]
    assert type(alpha.target_entropy) is float


@pytest.mark.parametrize(
    "given", [torch.zeros(1), torch.zeros(2, requires_grad=True), torch.zeros(0, requires_grad=True)]
)
def test_what_cannot_be_learned(given):
    with pytest.raises(ValueError, match="log_alpha must be one number that requires a gradient") as error:
        AutoAlpha(-1.0, given, sgd)
    assert str(error.value).endswith(": torch.zeros(1, requires_grad=True)")


def test_an_optimizer_that_holds_another():
    with pytest.raises(
        ValueError, match=r"^the optimizer of alpha does not hold log_alpha: make it with \[log_alpha\]$"
    ):
        AutoAlpha(-1.0, torch.zeros(1, requires_grad=True), sgd([torch.zeros(1, requires_grad=True)]))
    log_alpha = torch.zeros(1, requires_grad=True)
    other = torch.zeros(1, requires_grad=True)
    optim = sgd([{"params": [other]}, {"params": [log_alpha]}])
    assert AutoAlpha(-1.0, log_alpha, optim).optim is optim


def test_a_learned_one_that_is_assigned():
    alpha = AutoAlpha(-1.0, 0.3, sgd)
    before = alpha.log_alpha.item()
    alpha.assign(alpha.value)
    assert alpha.log_alpha.item() == before  # to the bit
    alpha.assign(2.0)
    assert alpha.value.item() == pytest.approx(2.0)
    alpha.assign(1e-6)
    assert alpha.value.item() == pytest.approx(1e-6)
    for wrong in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match=f"^a learned alpha must be above 0, got {wrong}$"):
            alpha.assign(wrong)
    assert alpha.value.item() == pytest.approx(1e-6)


def test_a_given_tensor_stays_the_one_that_the_optimizer_holds():
    log_alpha = torch.zeros(1, requires_grad=True)
    alpha = AutoAlpha(-1.0, log_alpha, sgd)
    alpha.learn(torch.ones(1) * 2)
    alpha.double()
    assert alpha.log_alpha is log_alpha
    assert (log_alpha.dtype, log_alpha.grad) == (torch.float64, None)
    alpha.learn(torch.ones(1, dtype=torch.float64) * 2)
    assert log_alpha.item() == 2.0


@pytest.mark.parametrize("log_alpha", [0.0, torch.zeros(1, requires_grad=True)])
def test_it_is_learned_on_in_double_precision(log_alpha):
    alpha = AutoAlpha(-1.0, log_alpha, sgd).double()
    alpha.learn(torch.ones(1, dtype=torch.float64) * 2)
    assert (alpha.value.dtype, alpha.log_alpha.item()) == (torch.float64, 1.0)
    assert alpha.optim.param_groups[0]["params"][0] is alpha.log_alpha


@pytest.mark.parametrize("make", [lambda: FixedAlpha(0.5), lambda: AutoAlpha(-1.0, 0.0, sgd)])
def test_what_a_script_adds_moves_with_it(make):
    alpha = make()
    alpha.layer = nn.Linear(1, 1)
    assert alpha.double() is alpha
    assert alpha.layer.weight.dtype == torch.float64
    alpha.to_empty(device="meta", recurse=False)
    assert (alpha.value.device.type, alpha.layer.weight.device.type) == ("meta", "cpu")


def test_one_without_an_optimizer_is_only_read():
    alpha = AutoAlpha(-1.0, 0.0, None)
    assert (alpha.optim, alpha.value.item()) == (None, 1.0)


def test_what_an_argument_means():
    made = FixedAlpha(1.0)
    assert make_alpha(made) is made
    assert type(make_alpha(0.5)) is FixedAlpha
    for kind in (tuple, list):
        learned = make_alpha(kind((-3.0, 0.0, adam(0.1))))
        assert (type(learned), learned.target_entropy) == (AutoAlpha, -3.0)
    with pytest.raises(TypeError):
        make_alpha((-3.0, 0.0))


class Owner:
    alpha = OfTemperature("number")
    is_auto_alpha = OfTemperature("is_learned")
    log_alpha = OfTemperature("log_alpha")
    target_entropy = OfTemperature("target_entropy")

    def __init__(self, alpha):
        self.temperature = make_alpha(alpha)


def test_attributes_of_policies():
    policy = Owner(0.25)
    assert (policy.alpha, policy.is_auto_alpha) == (0.25, False)
    assert type(policy.alpha) is float
    assert not any(hasattr(policy, name) for name in ("log_alpha", "target_entropy"))
    policy.alpha = 0.5
    assert policy.alpha == 0.5
    assert policy.temperature.descend(torch.ones(2)) == {}
    policy = Owner((-3.0, 0.0, sgd))
    assert (policy.alpha.item(), policy.is_auto_alpha, policy.target_entropy) == (1.0, True, -3.0)
    assert policy.temperature.optim.param_groups[0]["params"] == [policy.log_alpha]
    policy.target_entropy = -2
    assert policy.target_entropy == policy.temperature.target_entropy == -2.0
    policy.alpha = 2.0
    losses = policy.temperature.descend(torch.tensor([4.0]))
    assert {name: loss.item() for name, loss in losses.items()} == {"alpha_loss": pytest.approx(-2 * math.log(2.0))}
