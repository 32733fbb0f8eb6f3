"""The template of on-policy algorithms, with a minimal algorithm."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete

from policy.learners.given import calls_of
from rlfast.data import Batch, ReplayBuffer
from rlfast.data.stats import SequenceSummaryStats
from rlfast.functional import Categorical
from rlfast.policy import PGPolicy
from rlfast.policy.components.compiled_update import CompiledUpdate
from rlfast.policy.learners.rollout_learner import RolloutLearner
from rlfast.policy.stats import TrainingStats
from rlfast.utils.net.common import Net
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
        given = {"gamma": 0.5, "gae_lambda": 1.0, "max_batchsize": 3, "reward_normalization": False}
        actor, critic = Actor(Net(2, hidden_sizes=[4]), 2, softmax_output=False), Critic(Net(2, hidden_sizes=[4]))
        nets = {"actor": actor, "critic": critic, "optim": adam(0.1), "dist_fn": Categorical}
        super().__init__(
            **nets, **given | options, action_space=Discrete(2), deterministic_eval=False, action_scaling=False
        )
        self.seen = []
        self.seed(seed)
        self.compile_update(compile, actor, critic)

    def gradient_step(self, distribution, obs, *columns):
        act, returns = columns
        if not torch.compiler.is_compiling():
            self.seen.append(returns.tolist())
        loss = -(distribution().log_prob(act) * returns).mean() + 0.0 * self.critic(obs).mean()
        descend(loss, self.optim)
        return {"loss": loss.detach(), "rows": torch.tensor(float(len(act)))}


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
    assert all(isinstance(batch[name], torch.Tensor) for name in ("obs", "act", "returns", "adv", "v_s"))


@pytest.mark.parametrize("name", ["process_fn", "learn", "post_process_fn"])
@pytest.mark.parametrize("place", ["class", "object"])
def test_methods_of_users_get_observations_as_the_buffer_returns_them(name, place):
    """They may use NumPy, as in Tianshou; what is learned stays the same."""
    seen = []

    def shown(batch, *args, **kwargs):
        answer = inner(batch, *args, **kwargs)
        seen.append(batch.obs.astype(np.float64))
        return answer

    method = {name: lambda self, *args, **kwargs: shown(*args, **kwargs)}
    kind = type("Own", (Reinforce,), method) if place == "class" else Reinforce
    policy, plain, buffer = kind(), Reinforce(), rollout()
    inner = getattr(super(kind, policy) if place == "class" else policy, name)
    if place == "object":
        setattr(policy, name, shown)
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


def test_learning_goes_through_a_forward_that_is_listened_to():
    quick, heard, calls = Reinforce(), Reinforce(), []
    heard.register_forward_hook(lambda *_: calls.append(1))
    for policy in (quick, heard):
        policy.update(0, rollout(), batch_size=3, repeat=2)
    assert len(calls) == 4
    assert torch.allclose(weights(heard), weights(quick), atol=1e-6)


def test_a_graph_gives_the_same(monkeypatch):
    monkeypatch.setattr(CompiledUpdate, "backend", "eager")
    torch._dynamo.reset()
    eager, graph = Reinforce(), Reinforce(compile=True)
    for policy in (eager, graph):
        for _ in range(3):
            policy.update(0, rollout(), batch_size=None, repeat=2)
    assert torch.allclose(weights(graph), weights(eager), atol=1e-5)


@pytest.mark.usefixtures("as_it_is")
def test_the_gradient_step_is_what_is_compiled():
    eager, whole = Reinforce(), Reinforce(compile=True)
    for policy in (eager, whole):
        policy.update(0, rollout(), batch_size=3, repeat=2)
    torch.testing.assert_close(weights(whole), weights(eager))
    assert len(whole.seen) == 4
    whole.register_forward_hook(lambda *_: None)
    with pytest.raises(ValueError, match="or has hooks: leave compile at False"):
        whole.update(0, rollout(), batch_size=3, repeat=2)

    class Recurrent(Reinforce):
        def compile_update(self, compile, *networks):
            super().compile_update(compile, *networks, torch.nn.LSTM(1, 1))

    Recurrent(compile=False)
    with pytest.raises(ValueError, match="cannot take recurrent networks such as LSTM"):
        Recurrent(compile=True)


def test_its_defaults():
    class Plain(Reinforce):
        def __init__(self):
            nets = {"actor": Actor(Net(2, hidden_sizes=[4]), 2), "critic": Critic(Net(2, hidden_sizes=[4]))}
            options = {"gamma": 0.5, "reward_normalization": False, "deterministic_eval": False}
            RolloutLearner.__init__(
                self, **nets, **options, optim=None, dist_fn=Categorical, action_space=Discrete(2), action_scaling=False
            )

    policy = Plain()
    assert (policy.gae_lambda, policy.max_batchsize, policy.recompute_adv) == (1.0, 256, False)


def test_what_is_no_network():
    with pytest.raises(TypeError, match="^actor must be a Module"):
        PGPolicy(actor=len, optim=None, dist_fn=Categorical, action_space=Discrete(2), action_scaling=False)


def test_the_actor_is_given_hidden_states_and_infos():
    policy = Reinforce()
    calls = calls_of(policy.actor)
    obs = np.zeros((2, 2), np.float32)
    result = policy(Batch(obs=obs, info=Batch(lives=np.array([3, 2]))), "before")
    assert (calls[0]["state"], calls[0]["info"].lives.tolist(), result.state) == ("before", [3, 2], "before")
