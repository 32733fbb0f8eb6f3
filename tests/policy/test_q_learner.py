"""The base class of greedy policies, with an algorithm that has values of another kind than DQN."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from torch import nn

from policy.given import calls_of, overriding
from rlfast.data import Batch, ReplayBuffer
from rlfast.policy import DQNPolicy
from rlfast.policy.components.action_masks import legal_values
from rlfast.policy.components.memory.sequences import Sequences
from rlfast.policy.q_learner import QLearner, network_output, output_of_actions
from rlfast.policy.stats import TrainingStats
from rlfast.utils.net.common import Net
from rlfast.utils.runtime.native import NotNativeError


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
        return output_of_actions(self.values(obs_next, state), self.greedy_actions(obs_next, state))

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
    batch, indices = buffer.sample(0)
    assert policy.process_fn(batch, buffer, indices).returns.tolist() == [[2.0, 1.5]]


@pytest.mark.parametrize(("freq", "due"), [(0, [False] * 5), (1, [True] * 5), (2, [True, False, True, False, True])])
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


# -- exploring, and what does not fit ----------------------------------------------------------------------------------
def test_how_often_it_explores():
    policy, act = Mean(), np.full(2000, 1)
    batch = Batch(obs=np.zeros((2000, 1), np.float32), info={})
    masked = Batch(obs=Batch(obs=batch.obs, mask=np.tile([True, True, False], (2000, 1))), info={})
    assert policy.exploration_noise(act, batch) is act  # not unless it is set
    for eps in (0.0, -3.0):
        policy.set_eps(eps)
        assert policy.exploration_noise(act, batch) is act
    policy.set_eps(0.3)
    for given, others in ((batch, 2 / 3), (masked, 1 / 2)):
        drawn = policy.exploration_noise(act, given)
        assert (drawn != 1).mean() == pytest.approx(0.3 * others, abs=0.05)
        assert act.tolist() == [1] * 2000
    assert set(policy.exploration_noise(act, masked)) == {0, 1}
    policy.set_eps(7.0)
    assert (policy.exploration_noise(act, batch) != 1).mean() == pytest.approx(2 / 3, abs=0.05)
    assert (policy.exploration_noise(act, masked) != 1).mean() == pytest.approx(1 / 2, abs=0.05)
    with pytest.raises(ValueError, match=r"^eps must be a probability, got nan$"):
        policy.set_eps(float("nan"))
    assert policy.eps == 7.0
    as_batch = Batch(x=act)
    assert policy.exploration_noise(as_batch, batch) is as_batch


def test_a_target_network_must_be_there_to_be_asked():
    policy = Mean()
    with pytest.raises(ValueError, match=r"^there is no target network to ask; set target_update_freq$"):
        policy(Batch(obs=np.zeros((1, 1), np.float32), info={}), model="model_old")
    policy.sync_weight()  # nothing to copy
    lagged = Mean(target_update_freq=3)
    lagged.model.atoms.data += 1
    batch = Batch(obs=np.zeros((1, 1), np.float32), info={})
    assert (lagged(batch).logits - lagged(batch, model="model_old").logits).mean() == 1.0
    lagged.sync_weight()
    assert torch.equal(lagged(batch).logits, lagged(batch, model="model_old").logits)


def test_normalized_rewards_are_refused():
    text = "reward_normalization must be False: normalized rewards have no Q-values; scale the rewards instead"
    with pytest.raises(ValueError, match=f"^{text}$"):
        Mean(reward_normalization=True)


def test_its_defaults():
    policy = Mean()
    assert (policy.gamma, policy.n_step, policy.freq, policy.eps, policy.max_action_num) == (0.99, 1, 0, 0.0, 3)
    assert (policy.model_old, policy.rew_norm, policy.observation_space) == (None, False, None)
    assert policy.action_bound_method is None
    space = Box(-1.0, 1.0, (1,))
    assert Mean(observation_space=space).observation_space is space


def test_training_mode_is_that_of_the_trained_network():
    policy = Mean(target_update_freq=2)
    assert policy.train() is policy
    assert (policy.training, policy.model.training, policy.model_old.training) == (True, True, False)
    policy.train(False)
    assert (policy.training, policy.model.training, policy.model_old.training) == (False, False, False)


def test_actions_that_are_not_known_cannot_be_drawn():
    policy = Mean()
    policy.max_action_num = None
    policy.set_eps(0.5)
    with pytest.raises(ValueError, match=r"^how many actions there are is not known before the first forward$"):
        policy.exploration_noise(np.zeros(2), Batch(obs=np.zeros((2, 1)), info={}))
    policy(Batch(obs=np.zeros((2, 1), np.float32), info={}))
    assert policy.max_action_num == 3


def test_networks_are_given_hidden_states_and_infos():
    policy, alone = Mean(target_update_freq=2), Mean()
    calls, later, only = (calls_of(network) for network in (policy.model, policy.model_old, alone.model))
    obs, infos = np.zeros((2, 1), np.float32), Batch(lives=np.array([3, 2]))
    assert policy(Batch(obs=obs, info=infos)).state is None
    policy(Batch(obs=obs, info=infos), "before")
    policy.values(obs, "then", Batch(obs=obs, info=infos))
    assert [(call["state"], call["info"].lives.tolist()) for call in calls] == [
        (state, [3, 2]) for state in (None, "before", "then")
    ]
    calls.clear()
    on = {"state": "on", "info": {}}
    policy.values(obs, "on")
    policy.greedy_actions(obs, "on")
    policy.state_after(obs, "on")
    assert calls == [on] * 3
    policy.values(obs, "on", model=policy.lagged)
    alone.values(obs, "on", model=alone.lagged)
    assert (calls, later, only) == ([on] * 3, [on], [on])


def test_networks_are_given_no_infos_of_sequences():
    network, steps = Atoms(), torch.tensor([0, 1])
    calls = calls_of(network)
    sequence = Sequences(torch.zeros(1, 0, 1), torch.zeros(1, 0), torch.zeros(1, 2, 1), torch.zeros_like(steps), steps)
    output, state = network_output(network, sequence, Batch(lives=np.array([3, 2])))
    assert (output.shape, state, calls) == ((2, 3, 2), None, [{"state": None, "info": {}}])


def test_a_forward_of_ones_own_is_given_them_and_need_not_know_the_target_network():
    policy, given = Mean(), []

    def forward(self, batch, state):
        given.append((batch, state))
        return Batch(act=np.array([1, 0], np.uint8), logits=torch.empty(2, 3, 2, device="meta"))

    overriding(policy, forward=forward)
    batch = Batch(obs=np.zeros((2, 1), np.float32), info={})
    policy.values(batch.obs, "before", batch)
    act = policy.greedy_actions(batch.obs, "then")
    assert (act.dtype, act.tolist()) == (torch.int64, [1, 0])
    assert given[0] == (batch, "before")
    assert given[1][1] == "then"


def test_actions_become_indices_where_the_networks_are():
    act = Mean().actions(np.array([[1], [0]], np.uint8), torch.device("meta"))
    assert (act.shape, act.dtype, act.device.type) == ((2,), torch.int64, "meta")


def dqn(kind=DQNPolicy):
    return kind(model=Net(4, 3, [8]), optim=None, action_space=Discrete(3))


def test_exploration_in_rust():
    policy = dqn()
    assert policy.native_exploration() is None
    for eps, share in ((0.25, 0.25), (1.0, 1.0), (7.0, 1.0)):
        policy.set_eps(eps)
        assert policy.native_exploration() == (share, 3, policy.rng.bit_generator)
    policy.max_action_num = None
    assert policy.native_exploration() is None


def test_exploration_of_ones_own_is_none_in_rust():
    class Own(DQNPolicy):
        def exploration_noise(self, act, batch):
            return act

    with pytest.raises(NotNativeError, match=r"^Own has exploration noise of its own$"):
        dqn(Own).native_exploration()


def test_a_network_of_other_actions_does_not_choose_in_rust():
    policy = dqn()
    policy.max_action_num = 4
    with pytest.raises(NotNativeError, match="is not the number of outputs of the network"):
        policy.native_chooser((4,))
