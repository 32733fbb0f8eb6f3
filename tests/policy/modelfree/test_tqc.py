import math

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box

from continuous import LOG_PROB, GivenNormal, Lines
from rlfast.data import Batch
from rlfast.policy import TQCPolicy
from rlfast.policy.modelfree.tqc import TQCTrainingStats
from rlfast.policy.replay import Sample

ACT = math.tanh(0.5)


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=1.0)


def by_hand(slopes, offsets, **options):
    """Give a policy of one action at 0, deviation 1, and critics of several quantiles."""
    nets = {"actor": GivenNormal(0.0, 1.0), "critic": Lines(slopes, offsets)}
    defaults = {"alpha": 0.5, "tau": 0.25, "action_space": Box(-1, 1, (1,)), "top_quantiles_to_drop_per_net": 1}
    policy = TQCPolicy(**nets, actor_optim=sgd, critic_optim=sgd, **defaults | options)
    policy.draw_noise = lambda rows: torch.full((rows, 1), 0.5)
    return policy


class TestNextValue:
    QUANTILES = ((5.0, 0.0, 1.0), (2.0, 9.0, 3.0))

    @pytest.mark.parametrize(
        ("drop", "kept"), [(0, [0, 1, 2, 3, 5, 9]), (1, [0, 1, 2, 3]), (2, [0, 1])], ids=["none", "one", "two"]
    )
    def test_the_greatest_quantiles_of_all_critics_together_are_dropped(self, drop, kept):
        policy = by_hand([0.0, 0.0], self.QUANTILES, top_quantiles_to_drop_per_net=drop)
        value = policy.next_value(torch.zeros(2, 1), None, *policy.draw_next(2))
        wanted = [z - 0.5 * LOG_PROB for z in kept]
        assert value[0].tolist() == pytest.approx(wanted, abs=1e-5)
        assert torch.equal(value[0], value[1])

    @pytest.mark.pitfall("F5")
    def test_of_the_target_network(self):
        policy = by_hand([1.0, 1.0], self.QUANTILES)
        with torch.no_grad():
            policy.critic.offset.fill_(-100.0)
        value = policy.next_value(torch.zeros(1, 1), None, *policy.draw_next(1))
        assert value.tolist() == [pytest.approx([z + ACT - 0.5 * LOG_PROB for z in (0, 1, 2, 3)], abs=1e-5)]

    def test_too_few_quantiles_of_a_critic_that_does_not_say_how_many(self):
        with pytest.raises(ValueError, match="top_quantiles_to_drop_per_net is 3, and critic has 3"):
            policy = by_hand([0.0, 0.0], self.QUANTILES, top_quantiles_to_drop_per_net=3)
            policy.next_value(torch.zeros(1, 1), None, *policy.draw_next(1))


class TestLearn:
    def step(self, policy, returns, weight=None):
        rows = len(returns)
        batch = Batch(obs=np.zeros((rows, 1)), act=np.zeros((rows, 1), np.float32), info={})
        batch.returns = torch.tensor(returns)
        if weight is not None:
            batch.weight = np.array(weight)
        return policy.learn(batch), batch

    def test_losses_and_steps_by_hand(self):
        policy = by_hand([0.0, 0.0], [[0.0, 1.0], [0.5, 3.0]])
        stats, batch = self.step(policy, [[0.5, 3.0]])
        # Huber's function of 0.5, 3; -0.5, 2 is 0.125, 2.5; 0.125, 1.5; of 0, 2.5; -2.5, 0 it is 0, 2; 2, 0.
        # Levels are 1/4 and 3/4, for errors below 0 their complements 3/4 and 1/4.
        first = (0.25 * (0.125 + 2.5) / 2 + (0.25 * 0.125 + 0.75 * 1.5) / 2) / 2
        second = (0.25 * 2.0 / 2 + 0.25 * 2.0 / 2) / 2
        assert isinstance(stats, TQCTrainingStats)
        assert stats.critic_loss == pytest.approx((first + second) / 2)
        assert batch.td_error.tolist() == pytest.approx([((2.625 + 1.625) / 2 / 2 + (2.0 + 2.0) / 2 / 2) / 2])
        # slopes of the losses: 1/2 critics, 1/2 quantiles, 1/2 targets of the level times Huber's slope
        steps = [[0.25 * (0.5 + 1), -0.25 * 0.5 + 0.75 * 1], [0.25 * 1, -0.25 * 1]]
        offsets = [[0.0 + steps[0][0] / 8, 1.0 + steps[0][1] / 8], [0.5 + steps[1][0] / 8, 3.0 + steps[1][1] / 8]]
        assert policy.critic.offset[:, 0].tolist() == [pytest.approx(row) for row in offsets]
        assert stats.actor_loss == pytest.approx(0.5 * LOG_PROB - sum(map(sum, offsets)) / 4)
        assert policy.actor.mean.item() == pytest.approx(-0.5 * 2 * ACT, abs=1e-6)
        moved = [
            [0.25 * (new - old) + old for new, old in zip(row, before, strict=True)]
            for row, before in zip(offsets, [[0.0, 1.0], [0.5, 3.0]], strict=True)
        ]
        assert policy.critic_old.offset[:, 0].tolist() == [pytest.approx(row) for row in moved]

    def test_levels_are_as_exact_as_the_critics(self):
        policy = by_hand([0.0], [[0.0, 100.0, 100.0]])
        policy.double()
        stats, _ = self.step(policy, [[10.0]])
        # Huber's function of 10 and -90, twice, is 9.5 and 89.5, at the levels 1/6, 1/2 and 5/6
        assert stats.critic_loss == pytest.approx((9.5 / 6 + 89.5 / 2 + 89.5 / 6) / 3, rel=1e-12)

    def test_levels_are_where_the_critics_are(self):
        policy = by_hand([0.0], [[0.0, 1.0]])
        policy.soft_update = lambda *_: None  # addresses on this device are all the same
        zero = torch.zeros(1, 1, device="meta")
        losses, _ = policy.to("meta").gradient_step(Sample(None, zero, None, zero, 1.0, False, (zero,), zero))
        assert losses["critic_loss"].device.type == "meta"

    def test_importance_weights_and_one_target(self):
        policy = by_hand([0.0], [[0.0]], top_quantiles_to_drop_per_net=0)
        stats, batch = self.step(policy, [[3.0], [1.0]], weight=[0.5, 0.0])
        assert stats.critic_loss == pytest.approx(0.5 * 0.5 * 2.5 / 2)
        assert batch.td_error.tolist() == pytest.approx([2.5, 0.5])
