"""The template by both of its algorithms; what a step of each is, is in their own files."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete
from torch import nn
from torch.distributions import kl_divergence

from rlfast.functional import Categorical
from rlfast.functional.natural_gradient import NaturalStep, conjugate_gradients
from rlfast.policy import NPGPolicy, TRPOPolicy
from rlfast.utils.net.common import Net
from rlfast.utils.net.discrete import Actor, Critic
from rlfast.utils.optim import adam
from rollouts import rollout, weights

KINDS = [NPGPolicy, TRPOPolicy]


def make(kind, actor=None, critic=None, seed=0, **options):
    torch.manual_seed(seed)
    actor = actor or Actor(Net(4, hidden_sizes=[8]), 3, softmax_output=False)
    critic = critic or Critic(Net(4, hidden_sizes=[8]))
    given = {"optim": adam(1e-2, fused=False), "dist_fn": Categorical, "action_space": Discrete(3)}
    policy = kind(actor=actor, critic=critic, **given | options, action_scaling=False)
    policy.seed(seed)
    return policy


def test_conjugate_gradients_solve():
    factor = torch.from_numpy(np.random.default_rng(0).normal(size=(6, 6)))
    matrix, b = factor @ factor.T + 0.1 * torch.eye(6), torch.arange(6.0).double()
    exact = torch.linalg.solve(matrix, b)
    assert torch.allclose(conjugate_gradients(matrix.mv, b, tolerance=1e-20), exact, atol=1e-6)
    few = conjugate_gradients(matrix.mv, b, steps=2)
    assert not torch.allclose(few, exact, atol=1e-3)
    assert (few - exact) @ matrix @ (few - exact) < exact @ matrix @ exact


def test_when_conjugate_gradients_end():
    matrix, b = torch.tensor([[1.0, 0.0], [0.0, 3.0]]), torch.ones(2)
    first = [0.5, 0.5]  # its error is 0.5, -0.5
    assert conjugate_gradients(matrix.mv, b, tolerance=0.51).tolist() == first
    assert conjugate_gradients(matrix.mv, b, tolerance=0.5).tolist() == pytest.approx([1.0, 1 / 3])
    matrix, b = torch.linspace(0.01, 1.0, 30).double().diag(), torch.ones(30).double()
    by_steps = [conjugate_gradients(matrix.mv, b, **steps) for steps in ({}, {"steps": 10}, {"steps": 11})]
    assert torch.equal(by_steps[0], by_steps[1])
    assert not torch.equal(by_steps[0], by_steps[2])


def test_conjugate_gradients_of_nothing():
    """Tianshou's divide 0 by 0, and the actor's weights become NaN."""
    assert conjugate_gradients(torch.eye(3).mv, torch.zeros(3)).tolist() == [0, 0, 0]


def test_the_fisher_matrix_of_a_softmax():
    logits = torch.tensor([[0.3, -0.2, 1.0], [0.0, 2.0, 0.5]], requires_grad=True)
    acts = torch.tensor([0, 2])
    step = NaturalStep(lambda: Categorical(logits), lambda dist: dist.log_prob(acts).mean(), [logits], 0.1)
    probs = logits.detach().softmax(-1)
    exact = torch.zeros(6, 6)
    for row in range(2):
        part = slice(3 * row, 3 * row + 3)
        exact[part, part] = (probs[row].diag() - probs[row].outer(probs[row])) / 2
    computed = torch.stack([step.fisher_product(unit) for unit in torch.eye(6)])
    assert torch.allclose(computed, exact + 0.1 * torch.eye(6), atol=1e-6)
    gradient = torch.autograd.grad(Categorical(logits).log_prob(acts).mean(), logits)[0].flatten()
    assert torch.allclose(step.direction, -torch.linalg.solve(exact + 0.1 * torch.eye(6), gradient), atol=1e-4)


def test_a_step_says_where_it_leads_and_comes_back():
    logits = torch.tensor([[0.3, -0.2, 1.0]], requires_grad=True)
    start = logits.detach().clone()
    step = NaturalStep(lambda: Categorical(logits), lambda dist: dist.log_prob(torch.tensor([0])).mean(), [logits], 0.1)
    kl, loss = step.take(0.5)
    assert torch.allclose(logits, start + 0.5 * step.direction.view(1, 3))
    assert kl.item() == pytest.approx(kl_divergence(Categorical(start), Categorical(logits)).item())
    assert loss.item() == pytest.approx(Categorical(logits).log_prob(torch.tensor([0])).item())
    assert loss < step.loss
    assert step.take(0)[0].item() == pytest.approx(0, abs=1e-7)
    assert torch.equal(logits, start)


@pytest.mark.parametrize("kind", KINDS)
def test_the_optimizer_has_what_is_the_critics_alone(kind):
    """A factory that gets all parameters would have the critic's loss step the actor as well."""
    apart = make(kind)
    assert apart.optim.param_groups[0]["params"] == [*apart.critic.parameters()]
    net = Net(4, hidden_sizes=[8])
    shared = make(kind, Actor(net, 3, softmax_output=False), Critic(net))
    assert shared.optim.param_groups[0]["params"] == [*shared.critic.last.parameters()]


@pytest.mark.parametrize("kind", KINDS)
def test_an_optimizer_of_both_networks_steps_the_critic_alone(kind):
    policy = make(kind)
    parameters = [*policy.actor.parameters(), *policy.critic.parameters()]
    policy.optim = torch.optim.AdamW(parameters, lr=0.1, weight_decay=0.5)
    other = make(kind)
    other.optim = torch.optim.AdamW(other.critic.parameters(), lr=0.1, weight_decay=0.5)
    buffer = rollout(policy)
    for one in (policy, other):
        one.seed(1)
        one.update(0, buffer, batch_size=40, repeat=2)
    assert torch.equal(weights(policy), weights(other))


@pytest.mark.parametrize("kind", KINDS)
def test_a_network_under_both_heads_is_asked_anew_after_a_step(kind):
    """PPO may ask it once for both heads, because they step together."""
    net, calls = Net(4, hidden_sizes=[8]), []
    policy = make(kind, Actor(net, 3, softmax_output=False), Critic(net))
    buffer = rollout(policy)
    batch, indices = buffer.sample(0)
    batch = policy.process_fn(batch, buffer, indices)
    net.register_forward_hook(lambda *_: calls.append(1))
    policy.learn(batch, batch_size=None, repeat=1)
    assert len(calls) >= 3 + policy.optim_critic_iters  # before the step, with its gradient, and after it


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("normalized", [True, False])
def test_advantages_are_normalized_over_the_roll_out(kind, normalized):
    policy = make(kind, advantage_normalization=normalized)
    buffer = rollout(policy)
    batch, indices = buffer.sample(0)
    adv = policy.process_fn(batch, buffer, indices).adv
    assert (abs(adv.mean().item()) < 1e-6, abs(adv.std().item() - 1) < 1e-5) == (normalized, normalized)
    assert ("logp_old" in batch) == (kind is TRPOPolicy)


@pytest.mark.pitfall("A9")
@pytest.mark.parametrize("kind", KINDS)
def test_advantages_of_nothing_leave_the_actor_alone(kind):
    policy = make(kind)
    before = weights(policy.actor)
    buffer = rollout(policy, steps=1, rings=1)
    stats = policy.update(0, buffer, batch_size=None, repeat=2)
    assert torch.equal(weights(policy.actor), before)
    assert torch.isfinite(weights(policy)).all()
    assert stats.kl.max == pytest.approx(0, abs=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_the_critic_takes_several_steps(kind):
    policy = make(kind, optim_critic_iters=7)
    steps = []
    policy.optim.register_step_post_hook(lambda *_: steps.append(1))
    policy.update(0, rollout(policy), batch_size=40, repeat=3)
    assert len(steps) == 7 * 2 * 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_frozen_parameter_and_one_that_does_nothing(kind):
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = Actor(Net(4, hidden_sizes=[8]), 3, softmax_output=False)
            self.idle = nn.Parameter(torch.ones(2))
            self.body.last.model[0].bias.requires_grad_(False)

        def forward(self, obs, state=None, info=None):
            return self.body(obs, state)

    policy = make(kind, Odd())
    policy.update(0, rollout(policy), batch_size=None, repeat=2)
    assert policy.actor.idle.tolist() == [1, 1]
    assert torch.isfinite(weights(policy)).all()
