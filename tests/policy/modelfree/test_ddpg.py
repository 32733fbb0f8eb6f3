from functools import partial

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box

from algorithms import make_policy
from continuous import OBS, Given, Line, transitions
from policy.given import calls_of
from rlfast.data import Batch, VectorReplayBuffer
from rlfast.exploration import GaussianNoise
from rlfast.policy.modelfree.ddpg import DDPGTrainingStats
from rlfast.utils.net.common import Net
from rlfast.utils.net.continuous import Actor

make_ddpg = partial(make_policy, "ddpg", lr=1e-2)


class TestConstruction:
    @pytest.mark.parametrize("name", ["actor", "critic"])
    def test_what_is_no_network(self, name):
        with pytest.raises(TypeError, match=f"{name} must be a Module"):
            make_ddpg(**{name: lambda obs: obs})

    def test_an_actor_that_stretches_actions_itself(self):
        actor = Actor(Net(4, hidden_sizes=[8]), 2, max_action=2.0)
        with pytest.warns(UserWarning, match="stretched twice: by the actor, to max_action=2"):
            make_ddpg(actor=actor)
        policy = make_ddpg(actor=actor, action_scaling=False, action_bound_method=None)
        assert np.array_equal(policy.map_action(np.full((1, 2), 1.5)), [[1.5, 1.5]])


class TestForward:
    def test_the_actors_actions(self):
        policy = make_ddpg()
        result = policy(OBS, state="carried")
        assert torch.equal(result.act, policy.actor(OBS.obs)[0])
        assert result.state == "carried"
        with torch.no_grad():
            policy.actor.last.model[0].bias.add_(1.0)
        assert torch.equal(policy(OBS, model="actor_old").act, policy.actor_old(OBS.obs)[0])
        assert not torch.equal(policy(OBS).act, policy(OBS, model="actor_old").act)

    def test_actions_of_several_axes(self):
        policy = make_ddpg(action_space=Box(-2, 2, (1, 2)))
        assert policy(OBS).act.shape == (100, 1, 2)
        assert policy.compute_action(OBS.obs[0]).shape == (1, 2)
        assert np.isfinite(policy.update(16, transitions()).actor_loss)

    def test_exploration_noise(self):
        act = np.zeros((1000, 2), np.float32)
        noisy = make_ddpg().exploration_noise(act, OBS)
        assert noisy.std() == pytest.approx(0.1, rel=0.1)
        assert noisy.dtype == np.float32
        assert make_ddpg(exploration_noise=None).exploration_noise(act, OBS) is act
        policy = make_ddpg(exploration_noise=GaussianNoise(mu=3.0, sigma=0.0))
        assert policy.exploration_noise(act, OBS).tolist() == [[3.0, 3.0]] * 1000


def by_hand(**options):
    def sgd(parameters):
        return torch.optim.SGD(parameters, lr=1.0)

    nets = {"actor": Given(0.5), "critic": Line(2.0, 1.0), "actor_optim": sgd, "critic_optim": sgd}
    return make_ddpg(**nets, action_space=Box(-1, 1, (1,)), **{"tau": 0.25} | options)


class TestLearn:
    def step(self, policy, weight=None):
        batch = Batch(obs=np.zeros((2, 1)), act=np.array([[0.5], [-0.5]], np.float32), info={})
        batch.returns = torch.tensor([[3.0], [1.0]])
        if weight is not None:
            batch.weight = np.array(weight)
        return policy.learn(batch), batch

    @pytest.mark.pitfall("F5")
    def test_targets_come_from_both_target_networks(self):
        policy = by_hand(gamma=0.5, estimation_step=2)
        with torch.no_grad():
            policy.actor.act.fill_(-100.0)
            policy.critic.slope.fill_(-100.0)
            policy.actor_old.act.fill_(0.25)
        buffer = VectorReplayBuffer(3, 1)
        for t in range(3):
            flags = {"terminated": np.array([t == 2]), "truncated": np.array([False])}
            obs = np.zeros((1, 1), np.float32)
            buffer.add(Batch(obs=obs, act=obs, rew=np.ones(1), obs_next=obs, info={}, **flags))
        batch, indices = buffer.sample(0)
        returns = policy.process_fn(batch, buffer, indices).returns
        assert returns.flatten().tolist() == [1.5 + 0.25 * (2 * 0.25 + 1), 1.5, 1.0]

    def test_the_target_actor_is_given_the_hidden_state(self):
        policy = by_hand()
        calls = calls_of(policy.actor_old)
        policy.next_value(np.zeros((1, 1)), "before")
        assert [call["state"] for call in calls] == ["before"]

    def test_losses_and_steps_by_hand(self):
        policy = by_hand()
        stats, batch = self.step(policy)
        # errors 3 - 2 and 1 - 0; then the critic is 2 a + 3
        assert isinstance(stats, DDPGTrainingStats)
        assert stats.critic_loss == pytest.approx(1.0)
        assert batch.td_error.tolist() == pytest.approx([1.0, 1.0])
        assert batch.weight.tolist() == pytest.approx([-1.0, -1.0])  # under the name, and with the sign, of Tianshou
        assert policy.critic.slope.item() == pytest.approx(2.0)
        assert policy.critic.offset.item() == pytest.approx(3.0)
        assert stats.actor_loss == pytest.approx(-(2.0 * 0.5 + 3.0))
        assert policy.actor.act.item() == pytest.approx(0.5 + 2.0)
        assert policy.critic_old.offset.item() == pytest.approx(1.0 + 0.25 * 2.0)
        assert policy.actor_old.act.item() == pytest.approx(0.5 + 0.25 * 2.0)

    def test_importance_weights(self):
        stats, _ = self.step(by_hand(), weight=[0.5, 0.0])
        assert stats.critic_loss == pytest.approx(0.25)
