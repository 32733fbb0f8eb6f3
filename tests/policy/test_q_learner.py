"""The template of greedy policies by an algorithm with values of its own kind; what DQN does is in test_dqn.py."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete
from torch import nn

from rlfast.data import Batch, ReplayBuffer
from rlfast.policy._replaced import stock
from rlfast.policy.q_learner import QLearner, legal_values
from rlfast.policy.stats import TrainingStats


class Stats(TrainingStats):
    def __init__(self, loss):
        super().__init__()
        self.loss = loss


class Atoms(nn.Module):
    """Two atoms for each of three actions, wherever it is asked."""

    def __init__(self):
        super().__init__()
        self.atoms = nn.Parameter(torch.tensor([[0.0, 1.0], [4.0, 0.0], [2.0, 1.0]]))

    def forward(self, obs, state=None, info=None):
        return self.atoms.expand(len(obs), 3, 2), state


@stock("compute_q_value")
class Mean(QLearner):
    """The value of an action is the mean of its atoms."""

    stats_class = Stats

    def __init__(self, **options):
        model = Atoms()
        optim = torch.optim.SGD(model.parameters(), lr=1.0)
        super().__init__(model=model, optim=optim, action_space=Discrete(3), **options)

    def compute_q_value(self, logits, mask):
        return legal_values(logits.mean(dim=2), mask)

    def next_value(self, obs_next, state=None, *draws):
        act_B, atoms = self.chosen(obs_next, state)
        return atoms[torch.arange(len(act_B)), act_B]

    def gradient_step(self, sample):
        atoms = self.values(sample.obs, sample.state, sample.batch)[torch.arange(len(sample.act)), sample.act]
        loss = (sample.returns - atoms).square().mean()
        self.optim.zero_grad()
        loss.backward()
        self.optim.step()
        return {"loss": loss.detach()}, None


def one_row(mask):
    buffer = ReplayBuffer(1)
    obs = {"obs": np.zeros(1, np.float32), "mask": np.array(mask)}
    buffer.add(Batch(obs=obs, act=2, rew=1.0, obs_next=obs, terminated=False, truncated=False, info={}))
    return buffer


def test_values_of_a_kind_of_its_own():
    policy = Mean(discount_factor=0.5)
    assert not policy.is_heard("compute_q_value")
    batch, indices = one_row([True, True, True]).sample(0)
    assert policy(batch).act.tolist() == [1]
    assert policy.process_fn(batch, one_row([True] * 3), indices).returns.tolist() == [[3.0, 1.0]]
    assert policy.learn(batch).loss == pytest.approx((1.0 + 0.0) / 2)
    assert policy.model.atoms[2].tolist() == [3.0, 1.0]


def test_illegal_actions_are_not_chosen():
    policy, buffer = Mean(discount_factor=0.5), one_row([True, False, True])
    batch, indices = buffer.sample(0)
    assert policy(batch).act.tolist() == [2]
    assert policy.process_fn(batch, buffer, indices).returns.tolist() == [[2.0, 1.5]]


def test_a_subclass_that_replaces_the_algorithms_own():
    class Last(Mean):
        def compute_q_value(self, logits, mask):
            return legal_values(logits[..., 1], mask)

    policy, buffer = Last(discount_factor=0.5), one_row([False, True, True])
    assert policy.is_heard("compute_q_value")
    batch, indices = buffer.sample(0)
    assert policy.process_fn(batch, buffer, indices).returns.tolist() == [[2.0, 1.5]]


@pytest.mark.parametrize(("freq", "due"), [(0, [False] * 5), (2, [True, False, True, False, True])])
def test_when_the_target_network_is_due(freq, due):
    seen = []

    class Noting(Mean):
        def gradient_step(self, sample):
            seen.append(sample.is_due)
            return super().gradient_step(sample)

    policy = Noting(target_update_freq=freq)
    assert policy._target is (freq > 0)
    for _ in range(5):
        policy.update(1, one_row([True] * 3))
    assert seen == due
