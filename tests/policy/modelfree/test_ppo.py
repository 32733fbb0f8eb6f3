import copy
import pickle
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from torch import nn

from rlfast.data import Batch, ReplayBuffer, VectorReplayBuffer
from rlfast.functional import gae
from rlfast.policy import PPOPolicy
from rlfast.policy.compile.compiled_update import CompiledUpdate
from rlfast.policy.rollout import Minibatch
from rlfast.utils.net.common import Net
from rlfast.utils.net.discrete import Actor, Critic
from rlfast.utils.optim import adam
from rollouts import HEADS, Table, rollout, weights


def make_ppo(head="categorical", seed=0, **options):
    torch.manual_seed(seed)
    space, dist_fn, actor = HEADS[head]
    defaults = {
        "actor": actor(),
        "critic": Critic(Net(4, hidden_sizes=[8])),
        "optim": adam(1e-2, fused=False),
        "dist_fn": dist_fn,
        "action_space": space,
        "action_scaling": isinstance(space, Box),
    }
    policy = PPOPolicy(**defaults | options)
    policy.seed(seed)
    return policy


def prepared(policy, buffer):
    batch, indices = buffer.sample(0)
    return policy.process_fn(batch, buffer, indices)


class InOrder:
    """A random stream that shuffles nothing."""

    permutation = staticmethod(np.arange)


class TestConstruction:
    @pytest.mark.parametrize(
        ("options", "match"),
        [
            ({"eps_clip": -0.1}, "eps_clip must not be negative"),
            ({"dual_clip": 1.0}, "dual_clip must be above 1"),
            ({"max_grad_norm": -1.0}, "max_grad_norm must not be negative, or None, got"),
            ({"target_kl": 0.0}, "target_kl must be above 0, or None, got"),
            ({"max_batchsize": 0}, "max_batchsize must be at least 1"),
            ({"gae_lambda": 1.1}, "gae_lambda must be within 0 and 1"),
        ],
    )
    def test_bad_options(self, options, match):
        with pytest.raises(ValueError, match=match):
            make_ppo(**options)

    def test_an_unbounded_box_cannot_be_scaled(self):
        with pytest.raises(ValueError, match="finite bounds"):
            make_ppo("normal", action_space=Box(-np.inf, np.inf, (2,)))

    def test_the_optimizer_gets_shared_parameters_once(self):
        backbone = Net(4, hidden_sizes=[8])
        policy = make_ppo(actor=Actor(backbone, 3, softmax_output=False), critic=Critic(backbone))
        assert len(policy.optim.param_groups[0]["params"]) == 6

    def test_each_weight_has_one_name(self):
        names = {name.split(".")[0] for name in make_ppo().state_dict()}
        assert names == {"actor", "critic", "_extra_state"}


class TestForward:
    @pytest.mark.pitfall("F3")
    def test_the_policy_counts_in_its_own_form(self):
        policy = make_ppo("normal", action_space=Box(np.array([0.0, 0.0]), np.array([5.0, 1.0]), (2,), np.float64))
        assert policy.map_action(np.array([[-1.0, 1.0], [9.0, 0.0]])).tolist() == [[0.0, 1.0], [5.0, 0.5]]

    def test_compute_action(self):
        assert make_ppo().compute_action(np.zeros(4, np.float32)) in range(3)
        assert make_ppo("multi").compute_action(np.zeros(4, np.float32)).shape == (2,)


class TestProcess:
    @pytest.mark.parametrize("head", HEADS)
    @pytest.mark.parametrize("max_batchsize", [7, 1000])
    def test_what_the_passes_compare_with(self, head, max_batchsize):
        policy = make_ppo(head, max_batchsize=max_batchsize)
        buffer = rollout(policy)
        batch, indices = buffer.sample(0)
        done = policy.process_fn(copy.deepcopy(batch), buffer, indices)
        obs, obs_next = torch.as_tensor(batch.obs), torch.as_tensor(batch.obs_next)
        with torch.no_grad():
            values, next_values = policy.critic(obs).flatten(), policy.critic(obs_next).flatten()
            logits = policy.actor(obs)[0]
            dist = policy.dist_fn(*logits) if isinstance(logits, tuple) else policy.dist_fn(logits)
            log_prob = dist.log_prob(torch.as_tensor(batch.act))
        assert torch.allclose(done.v_s, values, atol=1e-6)
        assert torch.allclose(done.logp_old, log_prob, atol=1e-6)
        end = batch.truncated.copy()
        end[np.isin(indices, buffer.unfinished_index())] = True
        expected = gae(batch.rew, values.numpy(), next_values.numpy(), batch.terminated, end, 0.99, 0.95)
        assert done.adv.numpy() == pytest.approx(expected, abs=1e-5)
        assert torch.allclose(done.returns, done.adv + done.v_s, atol=1e-5)
        assert not any(done[name].requires_grad for name in ("v_s", "returns", "adv", "logp_old"))

    def test_no_more_rows_at_once_than_allowed(self):
        # in Tianshou, logp_old of a whole roll-out in one batch
        policy = make_ppo(max_batchsize=16)
        buffer = rollout(policy)
        seen = []
        for net in (policy.actor, policy.critic):
            net.register_forward_pre_hook(lambda _, args: seen.append(len(args[0])))
        prepared(policy, buffer)
        assert max(seen) == 16
        assert sum(seen) == 3 * 80

    def test_return_scaling(self):
        policy = make_ppo(reward_normalization=True)
        buffer = rollout(policy)
        plain = prepared(make_ppo(), buffer)
        first = prepared(policy, buffer)
        assert torch.allclose(first.returns, plain.returns, atol=1e-5)  # the first scale is 1
        mean, var = plain.returns.double().mean().item(), plain.returns.double().var(correction=0).item()
        assert float(policy.ret_rms.var) == pytest.approx(var, rel=1e-5)
        assert float(policy.ret_rms.mean) == pytest.approx(mean, rel=1e-5)
        second = prepared(policy, buffer)
        scale = np.sqrt(var)
        values = second.v_s.numpy() * scale
        batch, indices = buffer.sample(0)
        end = batch.truncated | np.isin(indices, buffer.unfinished_index())
        next_values = policy.critic(batch.obs_next).detach().flatten().numpy() * scale
        advantage = gae(batch.rew, values, next_values, batch.terminated, end, 0.99, 0.95)
        assert second.adv.numpy() == pytest.approx(advantage, abs=1e-4)
        assert second.returns.numpy() == pytest.approx((advantage + values) / scale, abs=1e-4)
        # the statistics are of returns as they are, not of scaled ones
        both = np.concatenate([plain.returns.double().numpy(), advantage + values])
        assert float(policy.ret_rms.mean) == pytest.approx(both.mean(), rel=1e-4)
        assert float(policy.ret_rms.var) == pytest.approx(both.var(), rel=1e-4)


class Constant(nn.Module):
    """A critic that returns the same value for all observations."""

    def __init__(self, value):
        super().__init__()
        self.value = nn.Parameter(torch.tensor(float(value)))

    def forward(self, obs, **_):
        return self.value.expand(len(obs), 1)


@pytest.mark.pitfall("F2")
@pytest.mark.parametrize(("end", "expected"), [("truncated", 0.5 + 0.5 * 3), ("terminated", 0.5)])
def test_the_value_after_a_truncation_is_not_scaled_as_a_reward(end, expected):
    """Values are of scaled returns already: only the reward is divided by the deviation, 2, and not the bootstrap."""
    policy = make_ppo(reward_normalization=True, discount_factor=0.5)
    policy.critic = Constant(3)
    policy.ret_rms.var, policy.ret_rms.count = np.array(4.0), 10
    flags = {"terminated": end == "terminated", "truncated": end == "truncated"}
    buffer, obs = VectorReplayBuffer(4, 1, seed=0), np.zeros((1, 4), np.float32)
    columns = {name: np.array([flag]) for name, flag in flags.items()}
    buffer.add(Batch(obs=obs, act=np.array([0]), rew=np.array([1.0]), obs_next=obs, info={}, **columns))
    batch, indices = buffer.sample(0)
    prepared = policy._compute_returns(batch, buffer, indices)
    assert prepared.returns.tolist() == pytest.approx([expected], abs=1e-5)


def by_hand(**options):
    """Give a policy of two observations and two equally likely actions, and a minibatch of two rows of it."""
    actor, critic = Table([[0.0, 0.0], [0.0, 0.0]]), Table([[1.0], [2.0]])
    optim = torch.optim.SGD([actor.values, critic.values], lr=1.0)
    options = {"action_space": Discrete(2), "advantage_normalization": False} | options
    policy = make_ppo(actor=actor, critic=critic, optim=optim, **options)
    return policy, Minibatch(
        obs=torch.tensor([0, 1]),
        act=torch.tensor([0, 1]),
        logp_old=torch.log(torch.tensor([0.5, 0.25])),  # ratios 1 and 2
        adv=torch.tensor([3.0, 1.0]),
        returns=torch.tensor([2.0, 4.0]),
        v_s=torch.tensor([1.0, 1.5]),
    )


class TestLearn:
    def test_losses_and_step_by_hand(self):
        policy, rows = by_hand()
        loss, clip_loss, vf_loss, ent_loss, *_ = policy.gradient_step(rows).values()
        assert clip_loss.item() == pytest.approx(-(3.0 + 1.2) / 2)
        assert vf_loss.item() == pytest.approx((1.0 + 4.0) / 2)
        assert ent_loss.item() == pytest.approx(np.log(2))
        assert loss.item() == pytest.approx(-2.1 + 0.5 * 2.5 - 0.01 * np.log(2))
        # -3/2 dlog pi(0|0); the second ratio is clipped; entropy is at its maximum; critic: 0.5 * 2/2 (G - V)
        assert policy.actor.values.tolist() == [pytest.approx([0.75, -0.75]), [0.0, 0.0]]
        assert policy.critic.values.flatten().tolist() == pytest.approx([1.5, 3.0])

    @pytest.mark.parametrize(("eps_clip", "clipped"), [(0.2, 1.7), (0.4, 1.9)])
    def test_value_clip(self, eps_clip, clipped):
        policy, rows = by_hand(value_clip=True, eps_clip=eps_clip)
        vf_loss = policy.gradient_step(rows)["vf_loss"]
        assert vf_loss.item() == pytest.approx((1.0 + (4.0 - clipped) ** 2) / 2)  # the clipped error is the larger one
        assert policy.critic.values.flatten().tolist() == pytest.approx([1.5, 2.0])

    @pytest.mark.parametrize(("dual_clip", "objective"), [(None, -12.0), (1.5, -4.5)])
    def test_dual_clip(self, dual_clip, objective):
        policy, rows = by_hand(dual_clip=dual_clip)
        rows = rows._replace(logp_old=torch.tensor([0.5, 0.125]).log(), adv=torch.tensor([1.0, -3.0]))  # ratios 1 and 4
        assert policy.gradient_step(rows)["clip_loss"].item() == pytest.approx(-(1.0 + objective) / 2)

    def test_normalized_advantages(self):
        policy, rows = by_hand(advantage_normalization=True)
        clip_loss = policy.gradient_step(rows)["clip_loss"]
        unit = 1 / np.sqrt(2)
        assert clip_loss.item() == pytest.approx(-(unit - 2 * unit) / 2)

    @pytest.mark.pitfall("A9")
    def test_one_row_has_no_deviation(self):
        policy, rows = by_hand(advantage_normalization=True)
        losses = policy.gradient_step(Minibatch(*(None if value is None else value[:1] for value in rows)))
        assert losses["clip_loss"].item() == 0.0
        assert torch.isfinite(weights(policy)).all()

    def test_the_gradient_norm_is_that_of_both_networks(self):
        policy, rows = by_hand(max_grad_norm=0.5)
        before = weights(policy)
        policy.gradient_step(rows)
        assert (weights(policy) - before).norm().item() == pytest.approx(0.5, rel=1e-4)

    @pytest.mark.parametrize(
        ("batch_size", "sizes"), [(None, [80]), (0, [80]), (80, [80]), (100, [80]), (32, [32, 48]), (20, [20] * 4)]
    )
    def test_minibatches_have_each_row_once_a_pass(self, batch_size, sizes):
        policy = make_ppo()
        buffer = rollout(policy)
        batch, indices = buffer.sample(0)
        done = policy.process_fn(batch, buffer, indices)
        parts = [*policy._minibatches(done, batch_size)]
        assert [len(part.obs) for part in parts] == sizes
        for name in ("obs", *policy.columns):
            rows = np.concatenate([getattr(part, name) for part in parts]).reshape(80, -1)
            assert sorted(rows.tolist()) == sorted(np.asarray(done[name]).reshape(80, -1).tolist())
        order = [done.adv.tolist().index(value) for part in parts for value in part.adv.tolist()]
        assert order != sorted(order)
        assert torch.equal(torch.cat([part.returns for part in parts]), done.returns[order])

    def test_copies_leave_the_rollout_out(self):
        policy, buffer = make_ppo(recompute_advantage=True), rollout(make_ppo())
        batch = prepared(policy, buffer)
        for other in (copy.deepcopy(policy), pickle.loads(pickle.dumps(policy))):
            assert other._buffer is other._indices is None
        for _ in range(2):  # of one roll-out, which is still there
            policy.learn(batch, batch_size=40, repeat=2)
        assert policy._buffer is buffer
        policy.update(0, buffer, batch_size=40, repeat=2)
        assert policy._buffer is policy._indices is None

    def test_double_precision(self):
        policy, buffer = make_ppo("independent").double(), rollout(make_ppo("independent"))
        batch = prepared(policy, buffer)
        assert all(batch[name].dtype == torch.float64 for name in ("v_s", "returns", "adv", "logp_old"))
        assert np.isfinite(policy.update(0, buffer, batch_size=16, repeat=2).loss.mean)
        assert all(p.dtype == torch.float64 for p in policy.parameters())

    def test_an_own_learn_as_it_is_written_for_tianshou(self):
        """Its names are there, and it ends with the weights of ours."""

        class Own(PPOPolicy):
            def learn(self, batch, batch_size, repeat, *args, **kwargs):
                losses = []
                for step in range(repeat):
                    if self.recompute_adv and step > 0:
                        batch = self._compute_returns(batch, self._buffer, self._indices)
                    for minibatch in batch.split(batch_size or -1, shuffle=False, merge_last=True):
                        dist = self(minibatch).dist
                        adv = (minibatch.adv - minibatch.adv.mean()) / (minibatch.adv.std() + self._eps)
                        ratio = (dist.log_prob(minibatch.act) - minibatch.logp_old).exp().float()
                        clipped = ratio.clamp(1.0 - self.eps_clip, 1.0 + self.eps_clip)
                        loss = -torch.min(ratio * adv, clipped * adv).mean()
                        value = self.critic(minibatch.obs).flatten()
                        loss = loss + self.vf_coef * (minibatch.returns - value).pow(2).mean()
                        loss = loss - self.ent_coef * dist.entropy().mean()
                        self.optim.zero_grad()
                        loss.backward()
                        nn.utils.clip_grad_norm_(self._actor_critic.parameters(), max_norm=self.max_grad_norm)
                        self.optim.step()
                        losses.append(loss.item())
                return {"loss": np.mean(losses)}

        buffer = rollout(make_ppo())

        def learned(kind):
            stock = make_ppo()
            policy = kind(
                actor=stock.actor,
                critic=stock.critic,
                optim=stock.optim,
                dist_fn=stock.dist_fn,
                action_space=Discrete(3),
                action_scaling=False,
                max_grad_norm=0.5,
                recompute_advantage=True,
            )
            policy.rng = InOrder()
            for _ in range(2):
                policy.update(0, buffer, batch_size=32, repeat=3)
            return weights(policy)

        torch.testing.assert_close(learned(Own), learned(PPOPolicy))

    def test_dict_observations(self):
        class OnParts(nn.Module):
            output_dim = 4

            def forward(self, obs, state=None, **kwargs):
                return torch.cat([torch.as_tensor(obs.a), torch.as_tensor(obs.b)], dim=1).float(), state

        policy = make_ppo(actor=Actor(OnParts(), 3, softmax_output=False), critic=Critic(OnParts()))
        buffer = ReplayBuffer(20)
        for t in range(20):
            obs = {"a": np.full(1, t, np.float32), "b": np.ones(3, np.float32)}
            row = {"obs": obs, "obs_next": obs, "act": t % 3, "rew": 1.0, "terminated": t % 5 == 4, "truncated": False}
            buffer.add(Batch(**row, info={}))
        stats = policy.update(0, buffer, batch_size=7, repeat=2)
        assert np.isfinite(stats.loss.mean)


def test_a_network_under_both_heads_is_asked_once_in_a_gradient_step(monkeypatch):
    def learned():
        torch.manual_seed(0)
        net = Net(4, hidden_sizes=[8])
        policy = make_ppo(actor=Actor(net, 3, softmax_output=False), critic=Critic(net), ent_coef=0.01)
        batch = prepared(policy, rollout(policy))
        net.register_forward_hook(lambda *_: calls.append(1))
        policy.learn(batch, batch_size=20, repeat=3)
        return weights(policy)

    calls = []
    together = learned()
    assert len(calls) == 3 * 4
    monkeypatch.setattr("rlfast.policy.rollout.shared_features", nullcontext)
    calls.clear()
    apart = learned()
    assert len(calls) == 2 * 3 * 4
    torch.testing.assert_close(together, apart)


def test_how_far_the_policy_moves_is_measured():
    """By hand, from the probabilities before and after a step, and from values and returns."""
    policy, buffer = make_ppo(ent_coef=0.0, advantage_normalization=False), filled_for_ppo()
    batch, indices = buffer.sample(0)
    rollout = policy.process_fn(batch, buffer, indices)
    explained = 1 - (rollout.returns - rollout.v_s).var() / rollout.returns.var()
    stats = policy.learn(rollout, batch_size=None, repeat=2)
    assert stats.explained_variance == pytest.approx(explained.item(), abs=1e-5)
    assert stats.approx_kl.min == pytest.approx(0, abs=1e-6)  # before the first step
    assert stats.approx_kl.max > 0
    assert stats.clip_fraction.min == 0
    assert {*stats.get_loss_stats_dict()} == {"loss", "clip_loss", "vf_loss", "ent_loss"}


@pytest.mark.parametrize(("head", "compiled"), [*((head, False) for head in HEADS), ("categorical", True)])
def test_passes_end_where_the_policy_has_moved_too_far(head, compiled, monkeypatch):
    monkeypatch.setattr(CompiledUpdate, "backend", "aot_eager")

    def learned(repeat=3, **options):
        policy = make_ppo(head, compile=compiled, **options)
        buffer = rollout(policy)
        steps = []
        step = policy._step
        policy._step = lambda minibatch: steps.append((step(minibatch), weights(policy))) or steps[-1][0]
        batch, indices = buffer.sample(0)
        stats = policy.learn(policy.process_fn(batch, buffer, indices), batch_size=20, repeat=repeat)
        return stats, steps, policy

    everything, steps, _ = learned()
    assert len(steps) == 3 * 4
    assert everything.gradient_steps is None
    changes = [losses["approx_kl"].item() for losses, _ in steps]  # before each step
    for last in (5,) if compiled else (5, 9):  # within the second pass, and in the third
        threshold = max(changes[:last])
        end = next((number for number, change in enumerate(changes) if change > threshold * (1 + 1e-6)), 12)
        stats, made, policy = learned(target_kl=threshold / 1.5)
        assert stats.gradient_steps == len(made) == end
        assert end > last - 1
        torch.testing.assert_close(weights(policy), steps[end - 1][1], rtol=1e-5, atol=1e-6)
        assert stats.approx_kl.max <= threshold * (1 + 1e-5)


def test_at_least_one_step_and_at_most_all_are_made():
    for target_kl, steps in ((1e-9, 1), (1e9, 12)):
        policy = make_ppo(target_kl=target_kl)
        assert policy.update(0, rollout(policy), batch_size=20, repeat=3).gradient_steps == steps


def test_one_and_a_half_of_the_target_is_the_limit():
    """By hand: a policy of two actions, whose probabilities move from 1/2 to those of a given ratio."""
    policy = make_ppo(actor=Table([[0.0, 0.0]] * 3), critic=Table([[0.0]] * 3), action_space=Discrete(2), target_kl=1.0)
    ratio = np.array([0.4, 1.6])
    with torch.no_grad():
        policy.actor.values[:] = torch.tensor(np.log(ratio / 2))
    batch = Minibatch(obs=np.array([0, 1]), act=torch.tensor([0, 1]), logp_old=torch.tensor([0.5, 0.5]).log())
    change = ((ratio - 1) - np.log(ratio)).mean()
    for factor, over in ((1.49, False), (1.51, True)):
        policy.target_kl = change / factor
        assert policy.is_finished(batch) == over
    policy.target_kl = None
    assert policy.is_finished(batch) is False


def filled_for_ppo():
    buffer = ReplayBuffer(20)
    for i in range(12):
        obs = np.full(4, i % 5, np.float32)
        end = i % 4 == 3
        buffer.add(Batch(obs=obs, act=i % 3, rew=float(i), terminated=end, truncated=False, obs_next=obs, info={}))
    return buffer
