from functools import partial

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, MultiDiscrete

from algorithms import make_policy
from distributional import Table
from policy.given import calls_of
from rlfast.data import Batch, VectorReplayBuffer
from rlfast.env.spaces.random_actions import random_legal
from rlfast.policy.modelfree.bdq import BDQNTrainingStats
from rlfast.utils.arguments.checks import ArgumentError

# values of three choices in two dimensions, by state; the best are (1, 2) and (0, 0)
ROWS = [[[0.0, 4.0, 1.0], [1.0, 2.0, 3.0]], [[8.0, 0.0, 0.0], [2.0, 1.0, 0.0]]]


make = partial(make_policy, "bdq", lr=1e-2)


def table(**options):
    model = Table(ROWS)
    options = {"target_update_freq": 0} | options
    return make(model=model, optim=torch.optim.SGD(model.parameters(), lr=1.0), **options)


def test_the_best_choice_of_each_dimension():
    policy = table()
    assert policy(Batch(obs=np.array([0, 1]), info={})).act.tolist() == [[1, 2], [0, 0]]
    mask = np.ones((2, 2, 3), bool)
    mask[0, 0, 1] = False
    assert policy(Batch(obs=Batch(obs=np.array([0, 1]), mask=mask), info={})).act.tolist() == [[2, 2], [0, 0]]
    assert (make().num_branches, make().choices) == (2, 3)


def test_dimensions_may_have_fewer_choices_than_the_model():
    model = Table(ROWS)
    model.num_branches, model.action_per_branch = 2, 3
    policy = make(model=model, action_space=MultiDiscrete([3, 2]), target_update_freq=0)
    batch = Batch(obs=np.array([0, 1]), info={})
    assert policy(batch).act.tolist() == [[1, 1], [0, 0]]
    assert policy.next_value(batch.obs).tolist() == [(4 + 2) / 2, (8 + 2) / 2]
    mask = np.ones((2, 2, 3), bool)
    mask[0, 1, 1] = False
    assert policy(Batch(obs=Batch(obs=batch.obs, mask=mask), info={})).act.tolist() == [[1, 0], [0, 0]]
    policy.set_eps(1.0)
    many = Batch(obs=np.zeros(300, int), info={})
    drawn = policy.exploration_noise(np.zeros((300, 2), int), many)
    assert drawn.max(axis=0).tolist() == [2, 1]
    with pytest.raises(ArgumentError, match="the model has 2 branches, but the action space is"):
        make(action_space=MultiDiscrete([3, 3, 3]))


def test_exploration_draws_whole_actions():
    policy, act = make(), np.zeros((3000, 2), int)
    batch = Batch(obs=np.zeros((3000, 4)), info={})
    assert policy.exploration_noise(act, batch) is act
    policy.set_eps(0.5)
    drawn = policy.exploration_noise(act, batch)
    assert act.max() == 0
    assert (drawn.any(axis=1)).mean() == pytest.approx(0.5 * 8 / 9, abs=0.04)
    assert np.bincount(drawn[:, 0], minlength=3)[1:].tolist() == pytest.approx([500, 500], abs=70)
    policy.set_eps(1.0)
    masked = Batch(obs=Batch(obs=np.zeros((3000, 4)), mask=np.tile([False, True, False], (3000, 2, 1))), info={})
    assert policy.exploration_noise(act, masked).tolist() == [[1, 1]] * 3000


def test_actions_are_drawn_from_the_policys_own_stream_and_among_the_legal_ones():
    policy, act = make(), np.zeros((3, 2), int)
    legal = np.array([[[False, True, True]] * 2] * 3)
    drawn = random_legal(np.random.default_rng(7), legal)
    twin = np.random.default_rng(7)
    twin.random(legal.shape)
    chance = twin.random(3)
    policy.set_eps(np.median(chance))  # and not one that equals it
    expected = np.where((chance < np.median(chance))[:, None], drawn, act).tolist()
    for mask in (legal, torch.as_tensor(legal)):
        policy.seed(7)
        noisy = policy.exploration_noise(act, Batch(obs=Batch(obs=np.zeros((3, 4)), mask=mask), info={}))
        assert noisy.tolist() == expected
    acts = Batch(a=act)
    assert policy.exploration_noise(acts, Batch(obs=np.zeros((3, 4)), info={})) is acts


def test_numbers_stand_for_values_of_a_box():
    policy = make(action_space=Box(np.array([-1, 0], np.float32), np.array([1, 10], np.float32)))
    act = np.array([[0, 1], [2, 2]])
    assert policy.map_action(act).tolist() == [[-1.0, 5.0], [1.0, 10.0]]
    assert policy.map_action(act).dtype == np.float32
    assert policy.map_action_inverse(np.array([[-0.9, 4.0], [0.6, 9.0]])).tolist() == act.tolist()
    assert make().map_action(act).tolist() == act.tolist()


@pytest.mark.parametrize(("double", "expected"), [(True, (1 + 0) / 2), (False, (9 + 5) / 2)])
def test_targets_by_hand(double, expected):
    policy = table(target_update_freq=10, is_double=double)
    with torch.no_grad():
        policy.model_old.values[0] = torch.tensor([[9.0, 1.0, 0.0], [5.0, 0.0, 0.0]])
    assert policy.next_value(np.array([0])).tolist() == [expected]


def test_illegal_choices_have_no_value():
    obs = Batch(obs=np.array([0]), mask=np.array([[[True, False, True], [True, True, False]]]))
    assert table().next_value(obs).tolist() == [(1 + 2) / 2]


def test_networks_are_given_hidden_states_and_infos():
    policy, infos = table(target_update_freq=2), Batch(lives=np.array([3]))
    calls, later = calls_of(policy.model), calls_of(policy.model_old)
    assert policy(Batch(obs=np.array([0]), info=infos)).state is None
    result = policy(Batch(obs=np.array([0]), info=infos), "before")
    assert (result.state, result.logits.tolist()) == ("before", ROWS[:1])
    batch = Batch(obs=np.array([0]), act=np.array([[1, 0]]), info=infos, returns=torch.tensor([[1.0]]))
    batch.state = torch.ones(1, 1)
    policy.learn(batch)
    assert [call["state"] for call in calls] == [None, "before", batch.state]
    assert all(call["info"].lives.tolist() == [3] for call in calls)
    policy.next_value(np.array([0]), "then")
    assert [calls[-1], *later] == [{"state": "then", "info": {}}] * 2


def test_actions_become_indices_where_the_networks_are():
    for act in (np.array([[1, 0], [2, 1]], np.uint8), np.array([1, 0], np.uint8)):
        indices = make().actions(act, torch.device("meta"))
        assert (indices.shape, indices.dtype, indices.device.type) == ((2, act.size // 2), torch.int64, "meta")


@pytest.mark.pitfall("branching targets at truncation")
def test_a_truncated_episode_bootstraps():
    policy, buffer = table(discount_factor=0.5), VectorReplayBuffer(2, 1)
    flags = {"terminated": np.array([False]), "truncated": np.array([True])}
    act = np.array([[0, 0]])
    buffer.add(Batch(obs=np.array([0]), act=act, rew=np.array([1.0]), obs_next=np.array([1]), info={}, **flags))
    batch, indices = buffer.sample(0)
    assert policy.process_fn(batch, buffer, indices).returns.tolist() == [[1 + 0.5 * (8 + 2) / 2]]


@pytest.mark.parametrize(("huber", "expected"), [(False, (9.0 + 0.25) / 2), (True, (2.5 + 0.125) / 2)])
def test_losses_and_a_step_by_hand(huber, expected):
    policy = table(clip_loss_grad=huber)
    batch = Batch(obs=np.array([0]), act=np.array([[1, 0]]), info={}, returns=torch.tensor([[1.0]]))
    with torch.no_grad():
        policy.model.values[0, 1, 0] = 0.5
    stats = policy.learn(batch)  # errors -3 and 0.5
    assert isinstance(stats, BDQNTrainingStats)
    assert stats.loss == pytest.approx(expected)
    assert batch.td_error.tolist() == [3.5]
    assert batch.weight.tolist() == [-2.5]
    step = [0.5, 0.25] if huber else [3.0, 0.5]
    assert policy.model.values[0, 0, 1].item() == pytest.approx(4.0 - step[0])
    assert policy.model.values[0, 1, 0].item() == pytest.approx(0.5 + step[1])


def test_importance_weights():
    policy = table()
    batch = Batch(obs=np.array([0, 0]), act=np.array([[1, 2], [1, 2]]), info={}, weight=np.array([0.5, 0.0]))
    batch.returns = torch.tensor([[4.0], [0.0]])
    assert policy.learn(batch).loss == pytest.approx(0.5 * 1.0 / 4)
