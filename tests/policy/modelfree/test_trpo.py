from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from torch import nn
from torch.distributions import Independent, Normal

from rlfast.functional import DiagonalNormal
from rlfast.policy import TRPOPolicy
from rlfast.policy.rollout import Minibatch


class Curved(nn.Module):
    """An actor whose mean is ten times the square of its parameter: steps that raise it lead further than expected."""

    def __init__(self):
        super().__init__()
        self.root = nn.Parameter(torch.ones(1))

    def forward(self, obs, state=None, info=None):
        mean = 10 * self.root.square().expand(len(obs), 1)
        return (mean, torch.ones_like(mean)), state


class Zero(nn.Module):
    def __init__(self):
        super().__init__()
        self.value = nn.Parameter(torch.zeros(1))

    def forward(self, obs):
        return self.value.expand(len(obs), 1)


def step(advantages=(1.0, -1.0), **options):
    """Do one step that makes an action above the mean more likely, and one below less; give policy and losses."""
    critic = Zero()
    optim = torch.optim.SGD(critic.parameters(), lr=0.1)
    given = {"action_space": Box(-1, 1, (1,)), "dist_fn": DiagonalNormal}
    policy = TRPOPolicy(actor=Curved(), critic=critic, optim=optim, **given | options)
    act = torch.tensor([[11.0], [9.0]])
    logp_old = torch.full((2,), -0.5 - 0.5 * np.log(2 * np.pi), dtype=torch.float32)
    rows = Minibatch(torch.zeros(2, 1), act, torch.tensor(advantages), torch.zeros(2), logp_old=logp_old)
    losses = policy.gradient_step(rows)
    return policy, {name: value.item() for name, value in losses.items()}


FISHER = 20**2 + 0.1  # the mean's slope squared, and the damping
SIZE = (2 * 0.02 / FISHER) ** 0.5  # of a step of length 1


def test_the_first_size_that_is_tried_is_the_longest_of_the_quadratic_form():
    policy, losses = step(max_kl=0.02, max_backtracks=50, backtrack_coeff=0.99)
    direction = 20 / FISHER  # the gradient of the ratios is 1 * 20 in each row
    assert losses["actor_loss"] == pytest.approx(0)
    tries = np.log(losses["step_size"] / (SIZE / direction)) / np.log(0.99)
    assert tries == pytest.approx(round(tries), abs=1e-3)
    assert tries > 0.5  # the square makes the first one change too much
    root = 1 + losses["step_size"] * direction
    assert policy.actor.root.item() == pytest.approx(root, rel=1e-6)
    assert losses["kl"] == pytest.approx((10 * (root**2 - 1)) ** 2 / 2, rel=1e-4)
    assert losses["kl"] < 0.02
    longer = 1 + losses["step_size"] / 0.99 * direction
    assert (10 * (longer**2 - 1)) ** 2 / 2 >= 0.02


def test_the_old_parameters_come_back_when_the_line_search_fails():
    """Tianshou leaves the actor at the last step that was tried, though it broke the constraint."""
    policy, losses = step(max_kl=0.02, max_backtracks=1)
    assert policy.actor.root.item() == 1.0
    assert (losses["step_size"], losses["kl"]) == (0, 0)


@pytest.mark.parametrize("advantage", [np.nan, np.inf])
def test_an_advantage_that_is_no_number_leaves_the_actor_as_it_was(advantage):
    policy, losses = step([advantage, -1.0])
    assert policy.actor.root.item() == 1
    assert (losses["step_size"], losses["kl"]) == (0, 0)


def test_without_advantages_there_is_no_step_that_a_distribution_would_refuse():
    policy, losses = step([0.0, 0.0], dist_fn=lambda mean, std: Independent(Normal(mean, std, validate_args=True), 1))
    assert policy.actor.root.item() == 1
    assert (losses["step_size"], losses["kl"]) == (0, 0)


@pytest.mark.parametrize(("kl", "loss", "size"), [(0.01, 1.0, 0.0), (0.02, 0.5, 0.0), (0.01, 0.5, 0.25)])
def test_a_step_must_stay_within_the_limit_and_be_better(kl, loss, size):
    policy, _ = step(max_kl=0.02)
    tried = SimpleNamespace(direction=torch.tensor([0.8]), fisher_product=lambda direction: direction)
    tried.loss, tried.take = torch.tensor(1.0), lambda _: (torch.tensor(kl), torch.tensor(loss))
    policy.natural_step = lambda *_: tried
    assert policy.actor_step(Minibatch(*torch.zeros(3, 2)))["step_size"].item() == pytest.approx(size)


def test_a_loss_that_is_no_number_fails_as_well(monkeypatch):
    monkeypatch.setattr("rlfast.policy.modelfree.trpo.surrogate_loss", broken())
    policy, losses = step()
    assert policy.actor.root.item() == 1.0
    assert losses["step_size"] == 0


def broken():
    """Give a loss that is right where the gradient is taken, and NaN wherever a step leads."""
    from rlfast.functional.losses import surrogate_loss

    def loss(log_prob, *args):
        value = surrogate_loss(log_prob, *args)
        return value if log_prob.requires_grad else value * float("nan")

    return loss


def test_the_size_of_other_algorithms_has_no_effect():
    assert step(actor_step_size=0.001)[1] == step(actor_step_size=5.0)[1]
