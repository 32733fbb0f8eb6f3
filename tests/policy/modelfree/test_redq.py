import math
from functools import partial

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box

from algorithms import make_policy
from continuous import LOG_PROB, GivenNormal, Lines, ensemble, normal_actor, transitions, weights
from rlfast.data import Batch, MixedReplayBuffer, ReplayBuffer
from rlfast.policy.modelfree.redq import REDQTrainingStats

make_redq = partial(make_policy, "redq", lr=1e-2)


def by_hand(**options):
    """Give a policy of one action at 0, deviation 1, and critics ``2 a + 1``, ``-a + 2`` and ``-9``."""

    def sgd(parameters):
        return torch.optim.SGD(parameters, lr=1.0)

    nets = {"actor": GivenNormal(0.0, 1.0), "critic": Lines([2.0, -1.0, 0.0], [1.0, 2.0, -9.0])}
    defaults = {"ensemble_size": 3, "actor_delay": 1, "alpha": 0.5, "tau": 0.25, "action_space": Box(-1, 1, (1,))}
    return make_redq(**nets, actor_optim=sgd, critic_optim=sgd, **defaults | options)


ACT = math.tanh(0.5)
VALUES = [2 * ACT + 1, 2 - ACT, -9.0]


def test_critics_are_drawn_for_the_device_of_the_actor():
    policy = make_redq(actor=normal_actor().to("meta"))
    assert [draws.device.type for draws in policy.draw_next(2)] == ["meta"] * 2


class TestNextValue:
    @pytest.mark.pitfall("F5")
    @pytest.mark.parametrize("members", [[0, 1], [1, 0], [1, 2]])
    @pytest.mark.parametrize("entropy", [True, False])
    @pytest.mark.parametrize(("mode", "of"), [("min", min), ("mean", lambda values: sum(values) / len(values))])
    def test_of_the_chosen_critics_of_the_target_network(self, members, mode, of, entropy):
        policy = by_hand(target_mode=mode, backup_entropy=entropy)
        with torch.no_grad():
            policy.critic.slope.fill_(-100.0)
        value = policy.next_value(torch.zeros(2, 1), None, torch.full((2, 1), 0.5), torch.tensor(members))
        wanted = of([VALUES[i] for i in members]) - entropy * 0.5 * LOG_PROB
        assert value.tolist() == pytest.approx([wanted, wanted], abs=1e-5)

    def test_critics_are_drawn_without_replacement_from_the_policys_seed(self):
        policy, same, other = (make_redq(seed, ensemble_size=10, critic=ensemble(10)) for seed in (0, 0, 1))
        drawn = [policy.draw_next(4)[1].tolist() for _ in range(2000)]
        assert {len({*members}) for members in drawn} == {2}
        counts = np.bincount(np.ravel(drawn), minlength=10)
        assert (abs(counts - 400) < 100).all()  # five deviations
        assert [same.draw_next(4)[1].tolist() for _ in range(9)] == drawn[:9]
        assert [other.draw_next(4)[1].tolist() for _ in range(9)] != drawn[:9]


class TestLearn:
    def step(self, policy, weight=None):
        batch = Batch(obs=np.zeros((2, 1)), act=np.array([[0.5], [-0.5]], np.float32), info={})
        batch.returns = torch.tensor([[3.0], [1.0]])
        if weight is not None:
            batch.weight = np.array(weight)
        policy.draw_noise = lambda rows: torch.full((rows, 1), 0.5)
        return policy.learn(batch), batch

    def test_losses_and_steps_by_hand(self):
        policy = by_hand()
        stats, batch = self.step(policy)
        # errors 3 - 2, 1 - 0; 3 - 1.5, 1 - 2.5; 3 + 9, 1 + 9
        assert isinstance(stats, REDQTrainingStats)
        assert stats.critic_loss == pytest.approx((1.0 + 2.25 + (144 + 100) / 2) / 3)
        assert batch.td_error.tolist() == pytest.approx([(1 + 1.5 + 12) / 3, (1 - 1.5 + 10) / 3])
        offsets = [1 + 2 / 3, 2.0, -9 + 22 / 3]
        slopes = [2.0, -1 + 1.5 / 3, (12 - 10) * 0.5 / 3]
        assert policy.critic.offset.flatten().tolist() == pytest.approx(offsets)
        assert policy.critic.slope.flatten().tolist() == pytest.approx(slopes)
        mean = sum(slope * ACT + offset for slope, offset in zip(slopes, offsets, strict=True)) / 3
        assert stats.actor_loss == pytest.approx(0.5 * LOG_PROB - mean)
        assert policy.actor.mean.item() == pytest.approx(sum(slopes) / 3 * (1 - ACT**2) - 0.5 * 2 * ACT, abs=1e-6)
        assert policy.critic_old.offset.flatten().tolist() == pytest.approx(
            [before + 0.25 * (after - before) for before, after in zip([1.0, 2.0, -9.0], offsets, strict=True)]
        )

    def test_importance_weights(self):
        stats, _ = self.step(by_hand(), weight=[0.5, 0.0])
        assert stats.critic_loss == pytest.approx(0.5 * (1.0 + 2.25 + 144.0) / 2 / 3)

    def test_the_actor_moves_at_the_last_step_of_its_delay(self):
        log_alpha = torch.zeros(1, requires_grad=True)
        policy = by_hand(actor_delay=3, alpha=(-1.0, log_alpha, torch.optim.SGD([log_alpha], lr=0.1)))
        moved, told = [], []
        for _ in range(7):
            before = [weights(policy.actor), log_alpha.item(), weights(policy.critic_old)]
            stats = self.step(policy)[0]
            told.append((stats.actor_loss, stats.alpha_loss))
            moved.append([not torch.equal(weights(policy.actor), before[0]), log_alpha.item() != before[1]])
            assert not torch.equal(weights(policy.critic_old), before[2])
            assert stats.alpha == pytest.approx(math.exp(log_alpha.item()))
        assert moved == [[number % 3 == 2] * 2 for number in range(7)]
        assert told[0] == told[1] == (0.0, None)
        assert told[2] == told[3] == told[4] != told[5]
        assert policy.critic_gradient_step == 7

    def test_by_default_at_the_twentieth(self):
        policy = make_redq(actor_delay=20)
        buffer = transitions()
        told = [policy.update(4, buffer).actor_loss for _ in range(20)]
        assert told[:19] == [0.0] * 19
        assert told[19] != 0.0


def buffer_of(rew, terminated):
    buffer = ReplayBuffer(4, seed=0)
    buffer.append(obs=[0.0], act=[0.5], rew=rew, terminated=terminated, truncated=False, obs_next=[0.0])
    return buffer


def test_a_whole_update_of_mixed_rows_by_hand():
    policy = by_hand(backup_entropy=False, gamma=0.5)
    policy.draw_noise = lambda rows: torch.full((rows, 1), 0.5)
    policy.draw_next = lambda rows: (policy.draw_noise(rows), torch.tensor([0, 1]))
    mixed = MixedReplayBuffer(buffer_of(rew=3.0, terminated=True), buffer_of(rew=1.0, terminated=False))
    stats = policy.update(2, mixed)
    assert isinstance(stats, REDQTrainingStats)
    targets, values = [3.0, 1 + 0.5 * min(VALUES[:2])], [2.0, 1.5, -9.0]
    errors = [[target - value for target in targets] for value in values]
    assert stats.critic_loss == pytest.approx(sum(error**2 for row in errors for error in row) / 6)
    offsets = [old + 2 * sum(row) / 6 for old, row in zip([1.0, 2.0, -9.0], errors, strict=True)]
    assert policy.critic.offset.flatten().tolist() == pytest.approx(offsets, abs=1e-5)
    slopes = [old + sum(row) / 6 for old, row in zip([2.0, -1.0, 0.0], errors, strict=True)]
    mean = sum(slope * ACT + offset for slope, offset in zip(slopes, offsets, strict=True)) / 3
    assert stats.actor_loss == pytest.approx(0.5 * LOG_PROB - mean, abs=1e-5)  # with the entropy all the same


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("compiled", [False, True])
def test_returns_of_mixed_rows_are_those_of_each_buffer(n_step, compiled):
    collected, data = transitions(), transitions()
    policy = make_redq(estimation_step=n_step, compile=compiled, alpha=0.5)
    policy.next_value = lambda obs_next, state, *_: torch.as_tensor(obs_next).sum(dim=1)
    batch, indices = MixedReplayBuffer(collected, data).sample(8)
    mixed = policy.process_fn(batch, MixedReplayBuffer(collected, data), indices)
    rows = np.concatenate([indices[:4], indices[4:] - collected.maxsize])
    alone = policy.process_fn(collected[rows], collected, rows)
    for name in ("reward_sum", "discount", "obs_next") if compiled else ("returns",):
        assert np.array_equal(mixed[name], alone[name]), name
