"""The base class of on-policy algorithms, with a minimal algorithm."""

import warnings
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiBinary
from torch import nn
from torch.distributions import Bernoulli, Independent

from policy.given import calls_of, forwarding
from rlfast.data import Batch, ReplayBuffer
from rlfast.data.stats import SequenceSummaryStats
from rlfast.functional import Categorical, DiagonalNormal
from rlfast.policy import A2CPolicy, NPGPolicy, PGPolicy, PPOPolicy, TRPOPolicy
from rlfast.policy.rollout import RolloutLearner
from rlfast.policy.stats import TrainingStats
from rlfast.utils.net.common import Net, Recurrent
from rlfast.utils.net.continuous import ActorProb
from rlfast.utils.net.discrete import Actor, Critic
from rlfast.utils.optim import adam, descend


@dataclass(kw_only=True)
class Stats(TrainingStats):
    loss: SequenceSummaryStats
    rows: SequenceSummaryStats


class Reinforce(RolloutLearner):
    """Needs neither values nor what the policy that acted thought of its actions."""

    stats_class = Stats
    columns = ("act", "returns")

    def __init__(self, compile=False, seed=0, **options):
        torch.manual_seed(seed)
        given = {"discount_factor": 0.5, "gae_lambda": 1.0, "max_batchsize": 3, "compile": compile}
        actor, critic = Actor(Net(2, hidden_sizes=[4]), 2, softmax_output=False), Critic(Net(2, hidden_sizes=[4]))
        nets = {"actor": actor, "critic": critic, "optim": adam(0.1), "dist_fn": Categorical}
        super().__init__(**nets, **given | options, action_space=Discrete(2), action_scaling=False)
        self.seen = []
        self.seed(seed)

    def gradient_step(self, batch):
        if not torch.compiler.is_compiling():
            self.seen.append(batch.returns.tolist())
        log_prob = self.dist(batch).log_prob(batch.act)
        loss = -(log_prob * batch.returns).mean() + 0.0 * self.critic(batch.obs).mean()
        descend(loss, self.optim)
        return {"loss": loss.detach(), "rows": torch.tensor(float(len(batch.act)))}


def rollout(length=7):
    rng, buffer = np.random.default_rng(0), ReplayBuffer(length)
    obs_next = rng.normal(size=2).astype(np.float32)
    for t in range(length):
        obs, obs_next = obs_next, rng.normal(size=2).astype(np.float32)
        flags = {"terminated": t == length - 1, "truncated": False}
        buffer.add(Batch(obs=obs, act=t % 2, rew=float(t), obs_next=obs_next, info={}, **flags))
    return buffer


def weights(policy):
    return torch.cat([p.detach().flatten().clone() for p in policy.parameters()])


@pytest.mark.parametrize("indices", [range(10**13), np.broadcast_to(np.int64(0), 10**13), np.arange(6)])
def test_other_indices_than_rows_are_refused_before_the_networks_are_asked(indices):
    policy, buffer = Reinforce(), rollout()
    policy.critic.forward = pytest.fail
    with pytest.raises(ValueError, match=rf"got 7 rows and {len(indices)} indices"):
        policy.process_fn(buffer.sample(0)[0], buffer, indices)


def test_only_what_a_step_learns_from_is_computed():
    policy, buffer = Reinforce(), rollout()
    batch, indices = buffer.sample(0)
    batch = policy.process_fn(batch, buffer, indices)
    assert "logp_old" not in batch
    due, expected = 0.0, []
    for rew in (6.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.0):
        due = rew + 0.5 * due
        expected.insert(0, due)
    assert batch.returns.tolist() == pytest.approx(expected)
    assert all(isinstance(batch[name], torch.Tensor) for name in ("act", "returns", "adv", "v_s"))


@pytest.mark.parametrize("name", ["process_fn", "learn", "post_process_fn"])
def test_methods_of_users_get_observations_as_the_buffer_returns_them(name):
    """They may use NumPy, as in Tianshou; what is learned stays the same."""
    seen = []

    def shown(batch, *args, **kwargs):
        answer = inner(batch, *args, **kwargs)
        seen.append(batch.obs.astype(np.float64))
        return answer

    method = {name: lambda self, *args, **kwargs: shown(*args, **kwargs)}
    kind = type("Own", (Reinforce,), method)
    policy, plain, buffer = kind(), Reinforce(), rollout()
    inner = getattr(super(kind, policy), name)
    for learner in (policy, plain):
        learner.update(0, buffer, batch_size=3, repeat=2)
    assert [array.tolist() for array in seen] == [buffer.sample(0)[0].obs.tolist()]
    torch.testing.assert_close(weights(policy), weights(plain))


def test_each_pass_has_each_row_once_and_losses_are_summed_up():
    policy = Reinforce()
    stats = policy.update(0, rollout(), batch_size=3, repeat=2)
    assert [len(part) for part in policy.seen] == [3, 4, 3, 4]
    first, second = ([*policy.seen[i], *policy.seen[i + 1]] for i in (0, 2))
    assert sorted(first) == sorted(second)
    assert first != second
    assert isinstance(stats, Stats)
    assert (stats.rows.mean, stats.rows.min, stats.rows.max) == (3.5, 3.0, 4.0)
    assert stats.loss.min < stats.loss.max


@pytest.mark.parametrize("recompute", [False, True])
def test_advantages_anew_before_each_pass(recompute):
    class Counting(Reinforce):
        recompute_adv = recompute
        calls = 0

        def _compute_returns(self, batch, buffer, indices):
            self.calls += 1
            return super()._compute_returns(batch, buffer, indices)

    policy = Counting()
    policy.update(0, rollout(), batch_size=None, repeat=3)
    assert policy.calls == (3 if recompute else 1)
    assert policy._buffer is None


@pytest.mark.usefixtures("as_it_is")
def test_the_gradient_step_is_what_is_compiled():
    eager, whole, calls = Reinforce(), Reinforce(compile=True), []
    compiled = whole._compiled
    whole._compiled = lambda *rows: calls.append(1) or compiled(*rows)
    for policy in (eager, whole):
        policy.update(0, rollout(), batch_size=3, repeat=2)
    torch.testing.assert_close(weights(whole), weights(eager))
    assert len(whole.seen) == len(calls) == 4


@pytest.mark.usefixtures("as_it_is")
def test_graph_refuses_overridden_forward_and_recurrent_networks():
    own = type("Own", (Reinforce,), {"forward": Reinforce.forward})
    own()
    with pytest.raises(ValueError, match="methods, and Own overrides"):
        own(compile=True)
    actor = Actor(Recurrent(1, 2, 4, hidden_layer_size=4), 2, softmax_output=False)
    with pytest.raises(ValueError, match="cannot take recurrent networks such as LSTM"):
        make(PPOPolicy, actor=actor, compile=True)


def test_its_defaults():
    class Plain(Reinforce):
        def __init__(self):
            nets = {"actor": Actor(Net(2, hidden_sizes=[4]), 2), "critic": Critic(Net(2, hidden_sizes=[4]))}
            options = {"discount_factor": 0.5}
            RolloutLearner.__init__(
                self, **nets, **options, optim=None, dist_fn=Categorical, action_space=Discrete(2), action_scaling=False
            )

    policy = Plain()
    assert (policy.gae_lambda, policy.max_batchsize, policy.recompute_adv) == (0.95, 256, False)


def test_what_is_no_network():
    with pytest.raises(TypeError, match="actor must be a Module"):
        PGPolicy(actor=len, optim=None, dist_fn=Categorical, action_space=Discrete(2), action_scaling=False)


def test_the_actor_is_given_hidden_states_and_infos():
    policy = Reinforce()
    calls = calls_of(policy.actor)
    obs = np.zeros((2, 2), np.float32)
    result = policy(Batch(obs=obs, info=Batch(lives=np.array([3, 2]))), "before")
    assert (calls[0]["state"], calls[0]["info"].lives.tolist(), result.state) == ("before", [3, 2], "before")


def make(kind=A2CPolicy, **options):
    torch.manual_seed(0)
    nets = {"actor": Actor(Net(2, hidden_sizes=[4]), 2), "critic": Critic(Net(2, hidden_sizes=[4]))}
    given = {"dist_fn": Categorical, "action_space": Discrete(2), "action_scaling": False, "optim": None}
    return kind(**nets | given | options)


def test_masks_are_of_discrete_actions():
    space, actor = Box(-1.0, 1.0, (2,)), ActorProb(Net(2, hidden_sizes=[4]), 2)
    policy = make(actor=actor, dist_fn=DiagonalNormal, action_space=space)
    obs = Batch(obs=np.zeros((3, 2), np.float32), mask=np.ones((3, 2), bool))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert isinstance(policy(Batch(obs=obs, info={})).dist, DiagonalNormal)


def test_roll_outs_are_moved_to_the_networks():
    class Bare(Reinforce):
        columns = ("act",)

        def _compute_returns(self, rollout, buffer, indices):
            return rollout

    policy, buffer = Bare().to("meta"), rollout()
    batch = policy.process_fn(*buffer.sample(0)[:1], buffer, np.arange(7))
    assert (batch.act.device.type, batch.obs.device.type) == ("meta", "meta")
    assert isinstance(batch.obs_next, np.ndarray)


class Echo(nn.Module):
    """Its logits are the hidden state."""

    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(1))

    def forward(self, obs, state=None, info=None):
        return self.gain * state.hidden, state


@pytest.mark.parametrize("overrides", [False, True])
def test_actors_start_from_the_states_that_were_stored(overrides):
    policy = make(PPOPolicy, actor=Echo(), max_batchsize=3, optim=adam(0.1))
    if overrides:
        forwarding(policy)
    states, plain, buffer = np.random.default_rng(0).normal(size=(7, 2)).astype(np.float32), rollout(), ReplayBuffer(7)
    for row, state in zip(plain[np.arange(7)], states, strict=True):
        row.policy = Batch(hidden_state=Batch(hidden=state))
        buffer.add(row)
    batch, indices = buffer.sample(0)
    calls = calls_of(policy.actor)
    batch = policy.process_fn(batch, buffer, indices)
    assert len(calls) == 3
    expected = torch.as_tensor(states).log_softmax(dim=1)[np.arange(7), np.arange(7) % 2]
    torch.testing.assert_close(batch.logp_old, expected)
    for part in policy._minibatches(batch, 3):
        torch.testing.assert_close(Categorical(part.state.hidden).log_prob(part.act), part.logp_old)
    stats = policy.learn(batch, batch_size=None, repeat=1)
    advantage = (batch.adv - batch.adv.mean()) / batch.adv.std()
    assert stats.clip_loss.mean == pytest.approx(-advantage.mean().item(), abs=1e-5)  # of ratios of 1


def test_illegal_actions_count_in_no_log_probability():
    policy, plain, buffer = make(PPOPolicy, max_batchsize=3), rollout(), ReplayBuffer(7)
    for index, row in enumerate(plain[np.arange(7)]):
        row.obs = row.obs_next = Batch(obs=row.obs, mask=np.arange(2) == row.act if index % 2 else np.ones(2, bool))
        buffer.add(row)
    batch, indices = buffer.sample(0)
    log_prob = policy.process_fn(batch, buffer, indices).logp_old
    assert log_prob[1::2].tolist() == [0.0] * 3
    assert (log_prob[::2] < 0).all()


def test_arrays_that_a_process_fn_leaves_are_learned_from():
    class Own(Reinforce):
        def process_fn(self, batch, buffer, indices):
            batch = super().process_fn(batch, buffer, indices)
            batch.act, batch.returns = batch.act.numpy(), batch.returns.numpy().astype(np.float64)
            return batch

    own, plain = Own(), Reinforce()
    for policy in (own, plain):
        policy.update(0, rollout(), batch_size=3, repeat=2)
    torch.testing.assert_close(weights(own), weights(plain))
    batch = own.to("meta")._as_tensors(Batch(act=np.array([1, 0]), returns=np.ones(2)))
    assert (batch.act.device.type, batch.act.dtype) == ("meta", torch.int64)
    assert (batch.returns.device.type, batch.returns.dtype) == ("meta", torch.float32)
    exact = make(critic=Critic(Net(2, hidden_sizes=[4])).double())
    assert exact._as_tensors(Batch(act=np.zeros(2, int), adv=np.ones(2), returns=np.ones(2))).adv.dtype == torch.float64
    alone = PGPolicy(actor=own.actor, optim=None, dist_fn=Categorical, action_space=Discrete(2), action_scaling=False)
    assert alone._as_tensors(Batch(act=np.zeros(2, int), returns=np.ones(2))).returns.dtype == torch.float32


def test_returns_are_as_exact_as_the_critic():
    exact, buffer = Reinforce().double(), rollout()
    batch, indices = buffer.sample(0)
    batch.obs, batch.obs_next = batch.obs.astype(np.float64), batch.obs_next.astype(np.float64)
    returns = exact.process_fn(batch, buffer, indices).returns
    due = [sum(0.5**k * (t + k) for k in range(7 - t)) for t in range(7)]
    assert returns.dtype == torch.float64
    assert returns.tolist() == pytest.approx(due, rel=1e-12)
    batch, indices = buffer.sample(0)
    assert Reinforce().process_fn(batch, buffer, indices).returns.dtype == torch.float32


def test_values_are_scaled_up_and_returns_down_by_the_deviation_of_returns():
    """With deviation 2, a critic that says 3 means 6: an advantage is 10 - 6, and the critic's target is 10 / 2."""
    policy = make(A2CPolicy, reward_normalization=True, discount_factor=0.9, gae_lambda=0.8)
    nn.init.zeros_(policy.critic.last.model[-1].weight)
    nn.init.constant_(policy.critic.last.model[-1].bias, 3.0)
    policy.ret_rms.var, policy._eps = np.array(4.0), 0.0
    buffer = ReplayBuffer(4)
    for terminated, truncated in ((True, False), (False, True)):
        obs = np.zeros(2, np.float32)
        flags = {"terminated": terminated, "truncated": truncated}
        buffer.add(Batch(obs=obs, act=0, rew=10.0, obs_next=obs, info={}, **flags))
    batch, indices = buffer.sample(0)
    result = policy.process_fn(batch, buffer, indices)
    assert result.v_s.tolist() == [3, 3]
    assert result.adv.tolist() == pytest.approx([10 - 6, 10 + 0.9 * 6 - 6])
    assert result.returns.tolist() == pytest.approx([10 / 2, (10 + 0.9 * 6) / 2])
    assert policy.ret_rms.count == 2


def test_returns_that_were_all_the_same_can_be_scaled_by():
    policy, buffer = Reinforce(reward_normalization=True), rollout()
    policy.ret_rms.var = np.array(0.0)
    batch, indices = buffer.sample(0)
    assert torch.isfinite(policy.process_fn(batch, buffer, indices).returns).all()


@pytest.mark.parametrize("dtype", [np.int8, np.int64, bool, np.float64])
@pytest.mark.parametrize("kind", [A2CPolicy, PPOPolicy, PGPolicy])
def test_binary_actions_may_be_stored_as_any_numbers(kind, dtype):
    def learned(dtype):
        torch.manual_seed(0)
        nets = {"actor": Actor(Net(2, hidden_sizes=[4]), 3, softmax_output=False)}
        if kind.has_critic:
            nets["critic"] = Critic(Net(2, hidden_sizes=[4]))
        how = {"dist_fn": lambda logits: Independent(Bernoulli(logits=logits), 1), "action_scaling": False}
        policy = kind(**nets, **how, optim=adam(0.1), action_space=MultiBinary(3))
        policy.seed(0)
        buffer, rng = ReplayBuffer(5), np.random.default_rng(0)
        for t in range(5):
            act, obs = rng.integers(2, size=3).astype(dtype), rng.normal(size=(2, 2)).astype(np.float32)
            flags = {"terminated": t == 4, "truncated": False}
            buffer.add(Batch(obs=obs[0], act=act, rew=float(t), obs_next=obs[1], info={}, **flags))
        policy.update(0, buffer, batch_size=None, repeat=2)
        return weights(policy)

    assert torch.equal(learned(dtype), learned(np.float32))


@pytest.mark.parametrize("kind", [A2CPolicy, NPGPolicy, PGPolicy, PPOPolicy, TRPOPolicy])
@pytest.mark.parametrize("overrides", [False, True])
@pytest.mark.filterwarnings("ignore:the actor gives 1 numbers")
def test_a_choice_of_two_by_bernoulli_is_learned_from_integers_as_from_what_it_draws(kind, overrides):
    def learned(shape, dtype):
        torch.manual_seed(0)
        nets = {"actor": Actor(Net(2, hidden_sizes=[4]), 1, softmax_output=False)}
        if kind.has_critic:
            nets["critic"] = Critic(Net(2, hidden_sizes=[4]))
        how = {"dist_fn": lambda logits: Bernoulli(logits=logits), "action_scaling": False}
        policy = kind(**nets, **how, optim=adam(0.1), action_space=Discrete(2))
        if overrides:
            forwarding(policy)
        policy.seed(0)
        buffer, rng = ReplayBuffer(6), np.random.default_rng(0)
        for t in range(6):
            act, obs = np.full(shape, t % 2, dtype), rng.normal(size=(2, 2)).astype(np.float32)
            flags = {"terminated": t == 5, "truncated": False}
            buffer.add(Batch(obs=obs[0], act=act, rew=float(t), obs_next=obs[1], info={}, **flags))
        policy.update(0, buffer, batch_size=3, repeat=2)
        return weights(policy)

    assert torch.equal(learned((), np.int64), learned((1,), np.float32))
