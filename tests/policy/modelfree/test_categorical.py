"""What C51 and Rainbow have in common; a table has no noisy layers, and Rainbow learns from it as C51 does."""

from functools import partial

import numpy as np
import pytest
import torch

import distributional
from distributional import Table, line
from policy.given import calls_of
from rlfast.data import Batch


@pytest.fixture(params=["C51", "Rainbow"])
def make(request):
    return partial(distributional.make, request.param)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"num_atoms": 1}, "num_atoms must be at least 2, got 1"),
        ({"v_min": 3.0}, "v_min must be below v_max, got 3.0 and 2.0"),
        ({"v_min": 2.0}, "v_min must be below v_max, got 2.0 and 2.0"),
        ({"v_max": float("nan")}, "v_max must be a finite number"),
        ({"reward_normalization": True}, "reward_normalization must be False"),
    ],
)
def test_bad_options(make, options, match):
    with pytest.raises(ValueError, match=match):
        make(**options)


def test_the_returns(make):
    policy = make(v_min=-1.0, v_max=3.0)
    assert policy.support.tolist() == [-1.0, 1.0, 3.0]
    assert policy.delta_z == 2.0
    assert not policy.support.requires_grad
    assert make(num_atoms=2).support.tolist() == [0.0, 2.0]
    assert make(Table(ROWS).to("meta"), optim=None).support.device.type == "meta"


# probabilities of the returns 0, 1 and 2 by state and action; the best actions are 1, 0 and 1
ROWS = [[[0.5, 0.5, 0.0], [0.25, 0.25, 0.5]], [[0.0, 0.5, 0.5], [1.0, 0.0, 0.0]], [[1.0, 0.0, 0.0], [0.25, 0.25, 0.5]]]


def test_expected_returns_choose(make):
    policy = make(Table(ROWS))
    result = policy(Batch(obs=np.array([0, 1, 2]), info={}))
    assert result.act.tolist() == [1, 0, 1]
    assert policy.compute_q_value(result.logits, None).tolist() == [[0.5, 1.25], [1.5, 0.0], [0.0, 1.25]]
    assert "support" in policy.state_dict()


def learned(make, **options):
    policy = make(Table(ROWS), optim=partial(torch.optim.SGD, lr=0.0), **options)
    buffer = line(0.5, 0.5, 4.0)
    batch, indices = buffer.sample(0)
    batch = policy.process_fn(batch, buffer, indices)
    stats = policy.learn(batch)
    return stats, batch, policy


def test_losses_by_hand(make):
    stats, batch, _ = learned(make, discount_factor=0.5)
    # after state 0: 0.5 + z / 2 are 0.5, 1, 1.5 by 0, 0.5, 0.5: 0, 0.75, 0.25 of the support
    # after state 1: 0.5, 1, 1.5 by 0.25, 0.25, 0.5: 0.125, 0.625, 0.25; at the end 4 counts as 2
    minus_logs = -np.log(np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [1.0, 0.0, 0.0]]) + 1e-8)
    targets = [[0.0, 0.75, 0.25], [0.125, 0.625, 0.25], [0.0, 0.0, 1.0]]
    expected = (np.array(targets) * minus_logs).sum(axis=1)
    assert batch.td_error.tolist() == pytest.approx(expected, rel=1e-5)
    assert stats.loss == pytest.approx(expected.mean(), rel=1e-5)


@pytest.mark.pitfall("n-step distributional bootstrap")
def test_the_distribution_after_n_steps(make):
    _, batch, _ = learned(make, discount_factor=0.5, estimation_step=2)
    # two steps after state 0: 0.75 + z / 4 are 0.75, 1, 1.25 by 0.25, 0.25, 0.5
    minus_logs = -np.log(np.array([0.5, 0.5, 0.0]) + 1e-8)
    target = [0.25 * 0.25, 0.25 * 0.75 + 0.25 + 0.5 * 0.75, 0.5 * 0.25]
    assert batch.td_error[0].item() == pytest.approx((np.array(target) * minus_logs).sum(), rel=1e-5)


@pytest.mark.parametrize(("double", "expected"), [(True, 1), (False, 0)])
def test_who_chooses(make, double, expected):
    policy = make(Table(ROWS), target_update_freq=10, is_double=double)
    with torch.no_grad():
        policy.model_old.values[0] = torch.tensor([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])  # for which 0 is the best
    assert torch.equal(policy.next_value(np.array([0])), policy.model_old.values[:1, expected])


def test_importance_weights(make):
    policy = make(Table(ROWS))
    batch = Batch(obs=np.array([0, 1]), act=np.array([0, 0]), info={}, weight=np.array([0.5, 0.0]))
    batch.reward_sum, batch.discount, batch.obs_next = np.ones(2), np.zeros(2), np.array([1, 2])
    assert policy.learn(batch).loss == pytest.approx(0.25 * -np.log(0.5), rel=1e-5)


def test_networks_are_given_hidden_states_and_infos(make):
    policy = make(Table(ROWS))
    calls = calls_of(policy.model)
    policy.next_value(np.array([0]), "before")
    assert calls == [{"state": "before", "info": {}}]
    batch = Batch(obs=np.array([0, 1]), act=np.array([0, 0]), info=Batch(lives=np.array([3, 2])))
    batch.reward_sum, batch.discount, batch.obs_next = np.ones(2), np.zeros(2), np.array([1, 2])
    batch.state, batch.state_next = torch.zeros(2, 1), torch.ones(2, 1)
    policy.learn(batch)
    _, after, now = calls
    assert (after["state"].tolist(), now["state"].tolist()) == ([[1.0]] * 2, [[0.0]] * 2)
    assert now["info"].lives.tolist() == [3, 2]
