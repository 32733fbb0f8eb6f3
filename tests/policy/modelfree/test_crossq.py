import math

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from torch import nn

from continuous import LOG_PROB, GivenNormal, Lines, Seen, moves, step_by_hand
from rlfast.data import Batch
from rlfast.policy import CrossQPolicy
from rlfast.policy.modelfree.crossq import CrossQTrainingStats
from rlfast.utils.net.ensemble import BatchRenorm

ACT = math.tanh(0.5)


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=1.0)


class SeenActor(GivenNormal):
    """An actor that notes in which mode it acts."""

    def __init__(self, *args):
        super().__init__(*args)
        self.calls = []

    def forward(self, obs, state=None, info=None):
        self.calls.append((torch.as_tensor(obs).detach().flatten().tolist(), self.training))
        return super().forward(obs, state, info)


def by_hand(**options):
    """Give a policy of one action at 0, deviation 1, and critics ``2 a + 1`` and ``-a + 2``."""
    nets = {"actor": SeenActor(0.0, 1.0), "critic": Seen([2.0, -1.0], [1.0, 2.0])}
    defaults = {"policy_delay": 1, "alpha": 0.5, "action_space": Box(-1, 1, (1,))}
    policy = CrossQPolicy(actor_optim=sgd, critic_optim=sgd, **nets | defaults | options)
    policy.draw_noise = lambda rows: torch.full((rows, 1), 0.5)
    return policy


def step(policy, weight=None):
    return step_by_hand(policy, [1.0, 2.0], weight)


def test_losses_and_steps_by_hand():
    policy = by_hand()
    stats, batch = step(policy)
    value = min(2 * ACT + 1, 2 - ACT) - 0.5 * LOG_PROB
    returns = [1.0 + 0.5 * value, 2.0]
    errors = [[returns[0] - 2.0, returns[1] - 0.0], [returns[0] - 1.5, returns[1] - 2.5]]
    assert isinstance(stats, CrossQTrainingStats)
    assert stats.critic_loss == pytest.approx(sum(e**2 for row in errors for e in row) / 4)
    assert batch.td_error.tolist() == pytest.approx([(errors[0][i] + errors[1][i]) / 2 for i in (0, 1)])
    # no gradient through the value of the next observation: half of each critic's step by its own errors alone
    offsets = [1.0 + sum(errors[0]) / 2, 2.0 + sum(errors[1]) / 2]
    slopes = [2.0 + (errors[0][0] - errors[0][1]) / 4, -1.0 + (errors[1][0] - errors[1][1]) / 4]
    assert policy.critic.offset.flatten().tolist() == pytest.approx(offsets)
    assert policy.critic.slope.flatten().tolist() == pytest.approx(slopes)
    least = min(slope * ACT + offset for slope, offset in zip(slopes, offsets, strict=True))
    assert stats.actor_loss == pytest.approx(0.5 * LOG_PROB - least)


def test_each_row_has_the_least_value_of_its_own():
    policy = by_hand()
    policy.draw_noise = lambda rows: torch.tensor([[0.5], [-0.5]])
    batch = Batch(obs=np.zeros((2, 1)), act=np.zeros((2, 1), np.float32), obs_next=np.ones((2, 1)), info={})
    batch.reward_sum, batch.discount = np.array([1.0, 2.0]), np.array([0.5, 0.5])
    policy.learn(batch)
    values = [2 - ACT - 0.5 * LOG_PROB, 1 - 2 * ACT - 0.5 * LOG_PROB]
    means = [(1.0 + 2.0) / 2] * 2  # of both critics at action 0
    assert batch.td_error.tolist() == pytest.approx([1 + 0.5 * values[0] - means[0], 2 + 0.5 * values[1] - means[1]])


def test_importance_weights():
    plain, weighted = step(by_hand())[0], step(by_hand(), weight=[0.5, 0.5])[0]
    assert weighted.critic_loss == pytest.approx(plain.critic_loss / 2)


def test_one_pass_for_both_observations_and_the_modes_of_each():
    policy = by_hand()
    for mode in (True, False):
        policy.train(mode)
        policy.critic.calls.clear()
        policy.actor.calls.clear()
        step(policy)
        assert policy.critic.calls == [(4, True, [0.0, 0.0, 1.0, 1.0]), (2, False, [0.0, 0.0])]
        assert policy.actor.calls == [([1.0, 1.0], False), ([0.0, 0.0], True)]
        assert (policy.training, policy.actor.training, policy.critic.training) == (mode, False, False)
    assert policy.train().training


def test_there_is_no_target_network():
    policy = by_hand()
    assert not hasattr(policy, "critic_old")
    before = policy.next_value(torch.zeros(1, 1), None, *policy.draw_next(1))
    assert before.tolist() == pytest.approx([min(2 * ACT + 1, 2 - ACT) - 0.5 * LOG_PROB], abs=1e-5)
    assert policy.critic.calls[-1][2] == [0.0]


def test_the_actor_moves_at_the_last_step_of_its_delay():
    policy = by_hand(policy_delay=3)
    assert moves(policy.actor, 6, lambda: step(policy)) == [False, False, True] * 2


class Normalized(nn.Module):
    """Critics whose actions are normalized over the batch."""

    def __init__(self):
        super().__init__()
        self.norm, self.lines = BatchRenorm(1, momentum=1.0), Lines([1.0, 1.0], [0.0, 0.0])

    def forward(self, obs, act):
        return self.lines(obs, self.norm(act))


def test_statistics_are_those_of_both_actions_together():
    policy = by_hand(critic=Normalized())
    step(policy)
    acts = torch.tensor([0.5, -0.5, ACT, ACT])
    assert policy.critic.norm.running_mean.item() == pytest.approx(acts.mean().item())
    assert policy.critic.norm.running_var.item() == pytest.approx(acts.var(correction=0).item())
    assert policy.critic.norm.steps.item() == 1


def test_acting_moves_no_statistics():
    class Actor(SeenActor):
        def __init__(self):
            super().__init__(0.0, 1.0)
            self.norm = BatchRenorm(1)

        def forward(self, obs, state=None, info=None):
            return super().forward(self.norm(torch.as_tensor(obs, dtype=torch.float32)), state, info)

    policy = by_hand(actor=Actor())
    policy.train()
    assert policy(Batch(obs=np.ones((1, 1), np.float32), info={})).act.shape == (1, 1)
    assert policy.actor.norm.steps.item() == 0
    step(policy)
    assert policy.actor.norm.steps.item() == 1
