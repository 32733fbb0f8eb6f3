from functools import partial

import pytest
import torch
from gymnasium.spaces import Box

from algorithms import make_policy
from continuous import OBS, Given, Line, transitions, weights
from rlfast.data import Batch
from rlfast.policy.modelfree.td3 import TD3TrainingStats

make_td3 = partial(make_policy, "td3", lr=1e-2)


def test_the_critics_begin_apart():
    policy = make_td3()
    assert not torch.equal(weights(policy.critic), weights(policy.critic2))
    assert torch.equal(weights(policy.critic2), weights(policy.critic2_old))


def by_hand(**options):
    def sgd(parameters):
        return torch.optim.SGD(parameters, lr=1.0)

    nets = {"actor": Given(0.5), "critic": Line(2.0, 1.0), "critic2": Line(-1.0, 2.0)}
    optimizers = {f"{name}_optim": sgd for name in nets}
    return make_td3(**nets, **optimizers, action_space=Box(-1, 1, (1,)), **{"tau": 0.25} | options)


class TestNextValue:
    @pytest.mark.pitfall("F5")
    def test_the_smaller_value_of_a_smoothed_action_by_all_target_networks(self):
        policy = by_hand()
        with torch.no_grad():
            for network in (policy.critic, policy.critic2):
                network.slope.fill_(-100.0)
            policy.actor.act.fill_(-100.0)
        noise = torch.tensor([[0.0], [-1.0], [4.0], [-4.0]])  # of 0.2, and no more than 0.5
        value = policy.next_value(torch.zeros(4, 1), None, noise)
        actions = [0.5, 0.3, 1.0, 0.0]
        assert value.tolist() == pytest.approx([min(2 * a + 1, 2 - a) for a in actions])

    def test_without_a_limit(self):
        value = by_hand(noise_clip=0.0, policy_noise=0.5).next_value(torch.zeros(1, 1), None, torch.tensor([[4.0]]))
        assert value.tolist() == pytest.approx([2 - 2.5])

    def test_the_noise_is_standard_normal_and_of_the_policys_seed(self):
        (one,), (two,), (other,) = (make_td3(seed).draw_next(1000) for seed in (0, 0, 1))
        assert one.shape == (1000, 2)
        assert (one.mean().item(), one.std().item()) == pytest.approx((0.0, 1.0), abs=0.1)
        assert torch.equal(one, two)
        assert not torch.equal(one, other)


class TestLearn:
    def step(self, policy, weight=None):
        batch = Batch(obs=OBS.obs[:2, :1], act=torch.tensor([[0.5], [-0.5]]).numpy(), info={})
        batch.returns = torch.tensor([[3.0], [1.0]])
        if weight is not None:
            batch.weight = torch.tensor(weight)
        return policy.learn(batch), batch

    def test_losses_and_steps_by_hand(self):
        policy = by_hand()
        stats, batch = self.step(policy)
        # errors 3 - 2 and 1 - 0 of the first; 3 - 1.5 and 1 - 2.5 of the second
        assert isinstance(stats, TD3TrainingStats)
        assert (stats.critic1_loss, stats.critic2_loss) == pytest.approx((1.0, 2.25))
        assert batch.td_error.tolist() == pytest.approx([1.25, -0.25])
        assert batch.weight.tolist() == pytest.approx([-1.25, 0.25])  # under the name, and with the sign, of Tianshou
        assert (policy.critic.slope.item(), policy.critic.offset.item()) == pytest.approx((2.0, 3.0))
        assert (policy.critic2.slope.item(), policy.critic2.offset.item()) == pytest.approx((0.5, 2.0))
        assert stats.actor_loss == pytest.approx(-(2.0 * 0.5 + 3.0))
        assert policy.actor.act.item() == pytest.approx(0.5 + 2.0)
        assert policy.actor_old.act.item() == pytest.approx(0.5 + 0.25 * 2.0)
        assert policy.critic_old.offset.item() == pytest.approx(1.0 + 0.25 * 2.0)
        assert policy.critic2_old.slope.item() == pytest.approx(-1.0 + 0.25 * 1.5)

    def test_importance_weights(self):
        stats, _ = self.step(by_hand(), weight=[0.5, 0.0])
        assert (stats.critic1_loss, stats.critic2_loss) == pytest.approx((0.25, 0.5 * 2.25 / 2))

    def test_actor_and_target_networks_wait(self):
        policy = by_hand(update_actor_freq=3)
        waiting = (policy.actor, policy.actor_old, policy.critic_old, policy.critic2_old)
        moved, told = [], []
        for _ in range(7):
            before, first = [weights(network) for network in waiting], weights(policy.critic)
            told.append(self.step(policy)[0].actor_loss)
            moved.append([not torch.equal(weights(n), old) for n, old in zip(waiting, before, strict=True)])
            assert not torch.equal(weights(policy.critic), first)
        assert moved == [[number % 3 == 0] * 4 for number in range(7)]
        assert told[0] == told[1] == told[2] != told[3]
        assert told[3] == told[4] == told[5] != told[6]


def test_only_the_first_critic_is_computed_for_the_actor():
    policy, calls = make_td3(update_actor_freq=1), []
    for name in ("critic", "critic2"):
        getattr(policy, name).register_forward_hook(lambda *_, name=name: calls.append(name))
    policy.update(8, transitions())
    assert calls == ["critic", "critic2", "critic"]
