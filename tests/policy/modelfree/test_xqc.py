import math

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from torch import nn

from algorithms import make_policy
from continuous import LOG_PROB, GivenNormal, Seen, moves, step_by_hand, transitions, weights
from rlfast.data import Batch, NStep, ReplayBuffer
from rlfast.policy import XQCPolicy
from rlfast.policy.components.return_scale import ReturnScale
from rlfast.policy.modelfree.xqc import XQCTrainingStats
from rlfast.utils.net.ensemble import UnitLinear

ACT = math.tanh(0.5)
ATOMS = np.array([-1.0, 0.0, 1.0])


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=1.0)


class LastLogits(Seen):
    """Logits of which only the last is not 0."""

    def forward(self, obs, act):
        return super().forward(obs, act) * torch.tensor([0.0, 0.0, 1.0])


def by_hand(**options):
    """Give a policy of one action at 0, deviation 1, and two critics of which only the last logit is not 0: it is
    ``a + 1`` and ``-a + 2``."""
    nets = {"actor": GivenNormal(0.0, 1.0), "critic": LastLogits([1.0, -1.0], [1.0, 2.0])}
    defaults = {"policy_delay": 1, "alpha": 0.5, "num_atoms": 3, "v_max": 1.0, "action_space": Box(-1, 1, (1,))}
    policy = XQCPolicy(actor_optim=sgd, critic_optim=sgd, **nets | defaults | options)
    policy.draw_noise = lambda rows: torch.full((rows, 1), 0.5)
    return policy


def step(policy, weight=None):
    return step_by_hand(policy, [0.25, 2.0], weight)


def softmax(last):
    """Probabilities of the logits 0, 0 and ``last``."""
    return np.exp([0.0, 0.0, last]) / np.exp([0.0, 0.0, last]).sum()


def projected(values, probs):
    """Share each probability between its two neighbours."""
    shares = np.clip(1 - abs(np.clip(values, -1, 1)[:, None] - ATOMS), 0, None)
    return probs @ shares


def test_losses_and_steps_by_hand():
    policy = by_hand(tau=0.25)
    stats, batch = step(policy)
    assert isinstance(stats, XQCTrainingStats)
    least = softmax(1 + ACT)  # has less expected value than softmax(2 - ACT)
    assert 1 + ACT < 2 - ACT
    targets = [projected(0.25 + 0.5 * (ATOMS - 0.5 * LOG_PROB), least), projected(np.full(3, 2.0), least)]
    assert targets[1].tolist() == pytest.approx([0, 0, 1])
    last = np.array([[1.5, 0.5], [1.5, 2.5]])  # of each critic, for each action
    errors = [[-targets[i] @ np.log(softmax(last[j][i])) for i in (0, 1)] for j in (0, 1)]
    assert stats.critic_loss == pytest.approx(np.mean(errors))
    assert batch.td_error.tolist() == pytest.approx(np.mean(errors, axis=0))
    # the slope of a cross-entropy by a logit is the difference of the probabilities
    slopes = np.array([[softmax(last[j][i])[2] - targets[i][2] for i in (0, 1)] for j in (0, 1)]) / 4
    offset = np.array([1.0, 2.0]) - slopes.sum(axis=1)
    slope = np.array([1.0, -1.0]) - slopes @ [0.5, -0.5]
    assert policy.critic.offset.flatten().tolist() == pytest.approx(offset)
    assert policy.critic.slope.flatten().tolist() == pytest.approx(slope)
    assert policy.critic_old.offset.flatten().tolist() == pytest.approx([1, 2] + 0.25 * (offset - [1, 2]))
    value = min(softmax(a * ACT + b) @ ATOMS for a, b in zip(slope, offset, strict=True))
    assert stats.actor_loss == pytest.approx(0.5 * LOG_PROB - value)
    assert stats.alpha == 0.5


def test_each_row_has_the_critic_with_the_least_value():
    policy = by_hand()
    prob_MBN = torch.tensor([[[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]])
    sample = Batch(reward_sum=torch.zeros(2), discount=torch.ones(2))
    sample.bootstrapped = lambda value: value
    target_BN = policy.target_distribution(sample, prob_MBN.clamp(min=1e-9).log(), torch.zeros(2))
    torch.testing.assert_close(target_BN, torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]))


def test_importance_weights():
    plain, weighted = step(by_hand())[0], step(by_hand(), weight=[0.5, 0.5])[0]
    assert weighted.critic_loss == pytest.approx(plain.critic_loss / 2)


def test_one_pass_for_both_observations_and_the_modes_of_each():
    policy = by_hand()
    for mode in (True, False):
        policy.train(mode)
        policy.critic.calls.clear()
        policy.critic_old.calls.clear()
        step(policy)
        assert policy.critic_old.calls == [(4, True, [0.0, 0.0, 1.0, 1.0])]
        assert policy.critic.calls == [(4, True, [0.0, 0.0, 1.0, 1.0]), (2, False, [0.0, 0.0])]
        assert (policy.training, policy.critic.training, policy.critic_old.training) == (mode, False, False)


def test_the_actor_moves_at_the_last_step_of_its_delay():
    policy = by_hand(policy_delay=3)
    assert moves(policy.actor, 6, lambda: step(policy)) == [False, False, True] * 2


def test_the_value_of_next_observations():
    value = by_hand().next_value(torch.zeros(1, 1), None, torch.full((1, 1), 0.5))
    assert value.tolist() == pytest.approx([softmax(1 + ACT) @ ATOMS - 0.5 * LOG_PROB])


def test_a_whole_update_is_that_written_out():
    """A step of real networks, with Adam, in the terms of torch alone."""
    torch.manual_seed(0)
    make = {"policy_delay": 1, "alpha": 0.1, "tau": 0.5, "v_max": 2.0}
    ours, theirs = make_policy("xqc", **make), make_policy("xqc", **make)
    draws = [torch.randn(16, 2), torch.randn(16, 2)]
    noise = iter(draws)
    ours.draw_noise = lambda rows: next(noise)
    buffer, indices = transitions(), np.arange(16)
    ours.learn(ours.process_fn(buffer[indices], buffer, indices))

    batch = buffer[indices]
    returns, _, _ = buffer.nstep(indices, 300, 0.99)
    divisor = max(math.sqrt(returns.var() + 1e-8), abs(returns).max() / 2)
    obs, obs_next, act = (torch.as_tensor(batch[name]) for name in ("obs", "obs_next", "act"))
    rew = torch.as_tensor(batch.rew / divisor, dtype=torch.float32)
    going = 0.99 * torch.as_tensor(~batch.terminated, dtype=torch.float32)
    atoms, actor, critic, target = torch.linspace(-2, 2, 5), theirs.actor, theirs.critic, theirs.critic_old

    def drawn(mode, obs, noise):
        mean, std = actor.train(mode)(obs)[0]
        before = mean + std * noise
        log_prob = torch.distributions.Normal(mean, std).log_prob(before) - torch.log(1 - before.tanh() ** 2)
        return before.tanh(), log_prob.sum(dim=1)

    with torch.no_grad():
        act_next, log_prob = drawn(False, obs_next, draws[0])
        both = torch.cat([obs, obs_next]), torch.cat([act, act_next])
        prob = target.train()(*both)[:, 16:].softmax(dim=2)
        least = (prob @ atoms).argmin(dim=0)
        prob = prob[least, torch.arange(16)]
        values = (rew[:, None] + going[:, None] * (atoms - 0.1 * log_prob[:, None])).clamp(-2, 2)
        shares = (1 - (values[:, :, None] - atoms).abs()).clamp(min=0)
        wanted = (prob[:, :, None] * shares).sum(dim=1)
    loss = -(wanted * critic.train()(*both)[:, :16].log_softmax(dim=2)).sum(dim=2).mean()
    theirs.critic_optim.zero_grad()
    loss.backward()
    theirs.critic_optim.step()
    for layer in critic.modules():
        if isinstance(layer, UnitLinear):
            layer.weight.data = nn.functional.normalize(layer.weight.data, dim=1)
    act, log_prob = drawn(True, obs, draws[1])
    q = (critic.eval()(obs, act).softmax(dim=2) @ atoms).amin(dim=0)
    theirs.actor_optim.zero_grad()
    (0.1 * log_prob - q).mean().backward()
    theirs.actor_optim.step()
    old = make_policy("xqc", **make)

    torch.testing.assert_close(weights(ours.critic), weights(critic), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(weights(ours.actor), weights(actor), atol=1e-5, rtol=1e-4)
    halfway = (weights(old.critic_old) + weights(critic)) / 2
    torch.testing.assert_close(weights(ours.critic_old), halfway, atol=1e-5, rtol=1e-4)


def test_weights_keep_norm_one():
    policy, buffer = make_policy("xqc", lr=0.1), transitions()
    layers = [one for one in policy.critic.modules() if isinstance(one, UnitLinear)]
    before = [one.weight.detach().clone() for one in layers]
    for _ in range(4):
        policy.update(16, buffer)
    for layer, first in zip(layers, before, strict=True):
        assert not torch.allclose(layer.weight, first, atol=0.01)
        torch.testing.assert_close(layer.weight.norm(dim=1), torch.ones(2, 8))


def test_weights_of_the_actor_keep_norm_one():
    class Actor(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = UnitLinear(4, 2)

        def forward(self, obs, state=None, info=None):
            mean = self.layer(torch.as_tensor(obs))
            return (mean, torch.ones_like(mean)), state

    policy = make_policy("xqc", actor=Actor(), policy_delay=1, lr=0.1)
    policy.update(16, transitions())
    torch.testing.assert_close(policy.actor.layer.weight.norm(dim=0), torch.ones(2))


def episodes(*lengths, **options):
    """Give a buffer of episodes in which each step is rewarded with 1."""
    buffer = ReplayBuffer(100, **options)
    for length in lengths:
        for t in range(length):
            row = {"obs": np.zeros(4), "obs_next": np.zeros(4), "act": np.zeros(2), "rew": 1.0}
            buffer.add(Batch(row, terminated=t == length - 1, truncated=False, info={}))
    return buffer


class TestReturnScale:
    def test_by_hand(self):
        scale = ReturnScale(5.0, 0.5)
        assert scale.steps == 6
        scale.update(episodes(2, 1), np.array([0, 1, 2]))  # returns of 1.5, 1 and 1
        assert scale.greatest == 1.5
        assert scale.divisor == pytest.approx(1.5 / 5)  # more than the deviation, 0.24
        scale.update(episodes(1, 9), np.array([0]))
        assert scale.greatest == 1.5
        assert ReturnScale(50.0, 0.5).divisor == pytest.approx(1.0)  # before any return

    def test_deviation(self):
        scale = ReturnScale(50.0, 0.5)
        scale.update(episodes(2, 1), np.array([0, 1]))
        assert scale.divisor == pytest.approx(0.25)

    @pytest.mark.parametrize(("gamma", "steps"), [(0.0, 3), (0.99, 300), (0.9999, 1000), (1.0, 1000)])
    def test_how_far_returns_go(self, gamma, steps):
        assert ReturnScale(5.0, gamma).steps == steps

    def test_negative_returns_count(self):
        scale, buffer = ReturnScale(5.0, 0.5), ReplayBuffer(9)
        row = {"obs": 0, "obs_next": 0, "act": 0, "rew": -8.0}
        buffer.add(Batch(row, terminated=True, truncated=False, info={}))
        scale.update(buffer, np.array([0]))
        assert scale.greatest == 8.0


def test_rewards_are_divided():
    policy, buffer = make_policy("xqc", gamma=0.5, estimation_step=2), episodes(4, 1)
    indices = np.array([0, 4])
    batch = policy.process_fn(buffer[indices], buffer, indices)
    assert policy.scale.divisor == pytest.approx(max(0.4375, 1.875 / 5))
    assert batch.reward_sum.tolist() == pytest.approx(np.array([1.5, 1.0]) / policy.scale.divisor)
    assert policy.learn(batch).reward_divisor == policy.scale.divisor
    assert buffer.rew.max() == 1.0  # as they were
    policy.load_state_dict(make_policy("xqc").state_dict())
    assert policy.scale.divisor == pytest.approx(1.0)


def test_rewards_of_a_buffer_that_sums_them_are_refused():
    policy, buffer = make_policy("xqc"), episodes(4, 2, unit=NStep(2, 0.99))
    with pytest.raises(ValueError, match="leave the unit out, and set estimation_step"):
        policy.update(2, buffer)
