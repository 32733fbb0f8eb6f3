import math

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from torch import nn

from continuous import LOG_PROB, GivenNormal, Lines, ensemble, normal_actor, transitions, weights
from rlfast.data import Batch
from rlfast.policy import DroQPolicy
from rlfast.policy.compile.compiled_update import CompiledUpdate
from rlfast.policy.critics import ensemble_values
from rlfast.policy.modelfree.droq import DroQTrainingStats
from rlfast.utils.net.common import EnsembleLinear
from rlfast.utils.optim import adam

ACT = math.tanh(0.5)


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=1.0)


def by_hand(**options):
    """Give a policy of one action at 0, deviation 1, and critics ``2 a + 1`` and ``-a + 2``."""
    nets = {"actor": GivenNormal(0.0, 1.0), "critic": Lines([2.0, -1.0], [1.0, 2.0])}
    defaults = {"actor_delay": 1, "alpha": 0.5, "tau": 0.25, "action_space": Box(-1, 1, (1,))}
    policy = DroQPolicy(**nets, actor_optim=sgd, critic_optim=sgd, **defaults | options)
    policy.draw_noise = lambda rows: torch.full((rows, 1), 0.5)
    return policy


def step(policy, weight=None):
    batch = Batch(obs=np.zeros((2, 1)), act=np.array([[0.5], [-0.5]], np.float32), info={})
    batch.returns = torch.tensor([[3.0], [1.0]])
    if weight is not None:
        batch.weight = np.array(weight)
    return policy.learn(batch), batch


@pytest.mark.pitfall("F5")
def test_the_least_value_of_the_target_network():
    policy = by_hand()
    with torch.no_grad():
        policy.critic.slope.fill_(-100.0)
    value = policy.next_value(torch.zeros(1, 1), None, *policy.draw_next(1))
    assert value.tolist() == pytest.approx([min(2 * ACT + 1, 2 - ACT) - 0.5 * LOG_PROB], abs=1e-5)


def test_losses_and_steps_by_hand():
    policy = by_hand()
    stats, batch = step(policy)
    # errors 3 - 2, 1 - 0; 3 - 1.5, 1 - 2.5
    assert isinstance(stats, DroQTrainingStats)
    assert stats.critic_loss == pytest.approx((1.0 + 2.25) / 2)
    assert batch.td_error.tolist() == pytest.approx([1.25, -0.25])
    assert policy.critic.offset.flatten().tolist() == pytest.approx([1 + 2 / 2, 2.0])
    assert policy.critic.slope.flatten().tolist() == pytest.approx([2.0, -1 + 1.5 / 2])
    mean = (2.0 * ACT + 2.0 - 0.25 * ACT + 2.0) / 2  # of both critics, not the lesser
    assert stats.actor_loss == pytest.approx(0.5 * LOG_PROB - mean)
    assert policy.critic_old.offset.flatten().tolist() == pytest.approx([1.25, 2.0])


def test_importance_weights():
    stats, _ = step(by_hand(), weight=[0.5, 0.0])
    assert stats.critic_loss == pytest.approx(0.5 * (1.0 + 2.25) / 2 / 2)


def test_the_actor_moves_at_the_last_step_of_its_delay():
    policy, moved = by_hand(actor_delay=3), []
    for _ in range(6):
        before = [weights(policy.actor), weights(policy.critic_old)]
        stats = step(policy)[0]
        moved.append(not torch.equal(weights(policy.actor), before[0]))
        assert not torch.equal(weights(policy.critic_old), before[1])
        assert (stats.actor_loss == 0.0) is not any(moved)
    assert moved == [False, False, True] * 2


class Drops(nn.Module):
    """An ensemble layer with dropout that counts how often it drops."""

    def __init__(self, size, inputs, outputs):
        super().__init__()
        self.linear, self.dropped = EnsembleLinear(size, inputs, outputs), []

    def forward(self, x):
        self.dropped.append(self.training)
        return self.linear(x)


@pytest.mark.parametrize("mode", [True, False])
def test_dropout_stays_on_while_learning_in_the_target_network_too(mode):
    policy = DroQPolicy(
        actor=normal_actor(),
        actor_optim=adam(),
        critic=ensemble(2, Drops),
        critic_optim=adam(),
        action_space=Box(-1, 1, (2,)),
        actor_delay=1,
    )
    policy.train(mode)
    policy.update(16, transitions())
    layers = [
        layer for net in (policy.critic, policy.critic_old) for layer in net.modules() if isinstance(layer, Drops)
    ]
    assert [layer.dropped for layer in layers] == [[True, True], [True]]
    assert (policy.training, policy.actor.training) == (mode, mode)
    assert policy.eval().train().training
    assert not any(parameter.requires_grad for parameter in policy.critic_old.parameters())


def test_dropout_within_a_graph(monkeypatch):
    monkeypatch.setattr(CompiledUpdate, "backend", "aot_eager")
    torch._dynamo.reset()
    torch.manual_seed(0)
    parts = {"actor": normal_actor(), "actor_optim": adam(1e-3), "critic_optim": adam(1e-3)}
    critic = ensemble(2, lambda m, i, o: nn.Sequential(EnsembleLinear(m, i, o), nn.Dropout(0.5)))
    policy = DroQPolicy(**parts, critic=critic, action_space=Box(-1, 1, (2,)), actor_delay=2, compile=True)
    buffer = transitions()
    losses = [policy.update(16, buffer).critic_loss for _ in range(6)]
    assert np.isfinite(losses).all()
    weights_before, batch = weights(policy.critic_old), transitions()
    values = [ensemble_values(policy.critic_old, torch.zeros(3, 4), torch.zeros(3, 2)) for _ in range(2)]
    assert not torch.equal(*values)
    policy.update(16, batch)
    assert not torch.equal(weights(policy.critic_old), weights_before)
