"""The template of actors of discrete actions by probability, by discrete SAC."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete

from distributional import Table
from policy.learners.given import calls_of
from rlfast.data import Batch
from rlfast.functional import Categorical
from rlfast.policy import DiscreteSACPolicy
from rlfast.utils.net.common import Net
from rlfast.utils.net.discrete import Actor, Critic
from rlfast.utils.runtime.native import NotNativeError

OBS = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
PLACES = np.array([0, 1])
LOGITS = [[0.0, 1.0], [2.0, 0.0]]


class Values(Table):
    """A table that is asked as critics are."""

    def forward(self, obs, **kwargs):
        return super().forward(obs)[0]


def make(kind=DiscreteSACPolicy, **nets):
    torch.manual_seed(0)
    given = {"actor": Actor(Net(4, hidden_sizes=[8]), 2, softmax_output=False)}
    given |= {"critic": Critic(Net(4, hidden_sizes=[8]), last_size=2)} | nets
    return kind(**given, actor_optim=None, critic_optim=None, action_space=Discrete(2))


def tables():
    return make(actor=Table(LOGITS), critic=Values(LOGITS), critic2=Values(LOGITS))


def test_training_mode_is_that_of_the_trained_networks():
    policy = make()
    for mode in (False, True):
        assert policy.train(mode) is policy
        trained = (policy, policy.actor, policy.critic, policy.critic2)
        assert [one.training for one in trained] == [mode] * 4
        assert not policy.critic_old.training
    assert policy.eval().train().training


def test_networks_are_given_hidden_states_and_infos():
    policy = tables()
    calls = calls_of(policy.actor)
    policy(Batch(obs=PLACES, info=Batch(lives=np.array([3, 2]))), "before")
    assert (calls[0]["state"], calls[0]["info"].lives.tolist()) == ("before", [3, 2])
    stream = torch.get_rng_state()
    dist = policy.choices(PLACES, "then")
    assert torch.equal(dist.probs, torch.tensor(LOGITS).softmax(dim=1))
    assert torch.equal(stream, torch.get_rng_state()), "nothing is drawn"
    other = Table(LOGITS)
    others = calls_of(other)
    policy.choices(PLACES, "after", network=other)
    assert [*calls[1:], *others] == [{"state": "then", "info": {}}, {"state": "after", "info": {}}]


def test_a_forward_of_ones_own_is_given_them():
    policy, given = tables(), []

    def forward(batch, state):
        given.append((batch, state))
        return Batch(dist=Categorical(torch.tensor(LOGITS)))

    policy.forward = forward
    batch = Batch(obs=PLACES, info={})
    policy.choices(PLACES, "before", batch)
    assert given == [(batch, "before")]


def test_observations_are_given_whole_to_foreign_networks():
    obs = Batch(obs=OBS, mask=np.ones((40, 2), bool))
    known = make()
    assert known.network_obs(OBS) is OBS
    assert np.array_equal(known.network_obs(obs), OBS)
    for foreign in (
        tables(),
        make(actor=Table(LOGITS)),
        make(critic=Values(LOGITS), critic2=Values(LOGITS)),
    ):
        assert foreign.network_obs(obs) is obs


def test_actions_become_indices_where_the_networks_are():
    act = make().actions(np.array([[1], [0]], np.uint8), torch.device("meta"))
    assert (act.shape, act.dtype, act.device.type) == ((2,), torch.int64, "meta")


def test_actions_that_are_drawn_in_rust_are_those_of_the_policy():
    policy, taken = make(), []
    for act in (
        lambda: policy(Batch(obs=OBS, info={})).act.numpy(),
        lambda: policy.native_chooser().choose(OBS),
    ):
        torch.manual_seed(5)
        taken.append(act().tolist())
    assert taken[0] == taken[1]
    assert {*taken[0]} == {0, 1}


def test_observations_of_ones_own_are_made_in_python():
    class Own(DiscreteSACPolicy):
        def network_obs(self, obs):
            return -obs

    assigned = make()
    assigned.network_obs = lambda obs: -obs
    for policy in (make(Own), assigned):
        with pytest.raises(NotNativeError, match="chooses actions by a method of its own"):
            policy.native_chooser()
