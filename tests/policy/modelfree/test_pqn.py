import io

import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete
from torch import nn

from distributional import Table
from policy.given import forwarding
from rlfast.data import Batch, VectorReplayBuffer
from rlfast.policy import PQNPolicy
from rlfast.policy.compile.compiled_update import CompiledUpdate
from rlfast.policy.modelfree.pqn import PQNTrainingStats
from rlfast.utils.net.common import Net
from rlfast.utils.optim import adam
from rollouts import rollout, weights


class Sums(Table):
    """Values by state number, to which the hidden state is added: the sum of the numbers so far."""

    def forward(self, obs, state=None, info=None):
        values, _ = super().forward(obs)
        return values + state["hidden"][:, None], {"hidden": state["hidden"] + torch.as_tensor(obs)}


def make(model=None, seed=0, actions=3, **options):
    torch.manual_seed(seed)
    model = model or Net(4, actions, [8], norm_layer=nn.LayerNorm)
    policy = PQNPolicy(**{"model": model, "optim": adam(1e-2), "action_space": Discrete(actions)} | options)
    policy.seed(seed)
    return policy


def rows(*ends, masks=None, hidden=None):
    """Give a buffer of states 0, 1, 2, ..., and how each step ends: ``e`` for a terminal state, ``t`` for time.

    Hidden states, if there are any, begin with ``hidden``, to which the numbers of the states before are added.
    """
    buffer = VectorReplayBuffer(len(ends), 1)
    for step, end in enumerate(ends):
        flags = {"terminated": np.array([end == "e"]), "truncated": np.array([end == "t"])}
        obs, obs_next = np.array([step]), np.array([step + 1])
        if masks is not None:
            obs, obs_next = (Batch(obs=o, mask=np.array([masks[min(o[0], len(masks) - 1)]])) for o in (obs, obs_next))
        if hidden is not None:
            flags["policy"] = {"hidden_state": {"hidden": np.array([hidden + sum(range(step))])}}
        buffer.add(Batch(obs=obs, act=np.array([0]), rew=np.array([step + 1.0]), obs_next=obs_next, info={}, **flags))
    return buffer


def returns(policy, buffer):
    batch, indices = buffer.sample(0)
    return policy.process_fn(batch, buffer, indices).returns.tolist()


VALUES = [[0.0, 0.0], [4.0, 8.0], [16.0, 2.0], [1.0, 32.0]]  # the greatest: 0, 8, 16, 32


@pytest.mark.parametrize("max_batchsize", [2, 256])
def test_returns_by_hand(max_batchsize):
    policy = make(Table(VALUES), actions=2, discount_factor=0.5, q_lambda=0.25, max_batchsize=max_batchsize)
    last = 3 + 0.5 * 32  # the roll-out is cut there
    second = 2 + 0.5 * (0.75 * 16 + 0.25 * last)
    first = 1 + 0.5 * (0.75 * 8 + 0.25 * second)
    assert returns(policy, rows("-", "-", "-")) == pytest.approx([first, second, last])


@pytest.mark.pitfall("A1")
@pytest.mark.parametrize(("end", "second"), [("e", 2.0), ("t", 2.0 + 0.5 * 16)])
def test_a_terminal_state_has_no_value_and_one_cut_off_by_time_keeps_it(end, second):
    policy = make(Table(VALUES), actions=2, discount_factor=0.5, q_lambda=0.25)
    first = 1 + 0.5 * (0.75 * 8 + 0.25 * second)
    assert returns(policy, rows("-", end, "-")) == pytest.approx([first, second, 3 + 0.5 * 32])


def test_illegal_actions_have_no_value():
    masks = [[True, True], [True, False], [False, True], [True, False]]
    policy = make(Table(VALUES), actions=2, discount_factor=0.5, q_lambda=0.0)
    assert returns(policy, rows("-", "-", "-", masks=masks)) == pytest.approx([1 + 2, 2 + 1, 3 + 0.5])


@pytest.mark.parametrize("max_batchsize", [2, 256])
def test_hidden_states_count_in_returns_and_losses(max_batchsize):
    policy = make(Sums(VALUES), actions=2, discount_factor=0.5, q_lambda=0.0, max_batchsize=max_batchsize)
    buffer = rows("-", "-", "-", hidden=10.0)
    batch, indices = buffer.sample(0)
    batch = policy.process_fn(batch, buffer, indices)
    # after the states the sums are 10, 11 and 13
    assert batch.returns.tolist() == pytest.approx([1 + 0.5 * (8 + 10), 2 + 0.5 * (16 + 11), 3 + 0.5 * (32 + 13)])
    stats = policy.learn(batch, batch_size=None, repeat=1)
    errors = [10 - (0 + 10), 15.5 - (4 + 10), 25.5 - (16 + 11)]
    assert stats.loss.mean == pytest.approx(sum(error**2 for error in errors) / 3)


def test_what_a_gradient_step_is_given():
    policy, samples = make(Sums(VALUES), actions=2), []
    step = policy.gradient_step
    policy.gradient_step = lambda sample: samples.append(sample) or step(sample)
    batch = Batch(obs=torch.tensor([0, 1]), act=torch.tensor([1, 0]), returns=torch.tensor([3.0, 5.0]))
    batch.state = Batch(hidden=torch.tensor([20.0, 30.0]))
    policy.learn(batch, batch_size=None, repeat=1)
    (sample,) = samples
    seen = (sample.obs, sample.act, sample.returns, sample.state.hidden)
    assert sorted(zip(*(one.tolist() for one in seen), strict=True)) == [(0, 1, 3.0, 20.0), (1, 0, 5.0, 30.0)]
    assert (sample.batch.obs is sample.obs, sample.weight, sample.is_due, sample.draws) == (True, 1.0, False, ())


def test_a_forward_of_ones_own_is_given_the_minibatch():
    policy = make(Sums(VALUES), actions=2)
    calls = forwarding(policy)
    batch = Batch(obs=np.array([0, 1]), act=np.array([1, 0]), returns=torch.tensor([3.0, 5.0]))
    batch.state, batch.info = Batch(hidden=torch.tensor([20.0, 30.0])), Batch(lives=np.array([2, 3]))
    policy.learn(batch, batch_size=1, repeat=1)
    given = [call.args for call in calls]
    seen = sorted((part.obs.tolist(), part.info.lives.tolist(), state.hidden.tolist()) for part, state in given)
    assert seen == [([0], [2], [20.0]), ([1], [3], [30.0])]


def test_loss_and_step_by_hand():
    optim = torch.optim.SGD
    policy = make(Table(VALUES), actions=2, max_grad_norm=None)
    policy.optim = optim(policy.model.parameters(), lr=1.0)
    batch = Batch(obs=torch.tensor([0, 1]), act=torch.tensor([1, 0]), returns=torch.tensor([3.0, 5.0]))
    stats = policy.learn(batch, batch_size=None, repeat=1)
    assert isinstance(stats, PQNTrainingStats)
    assert stats.loss.mean == pytest.approx((3**2 + 1**2) / 2)
    assert policy.model.values[:2].tolist() == [[0, 3], [5, 8]]  # 2/2 (G - Q)


def test_the_gradient_is_clipped():
    policy = make(Table(VALUES), actions=2, max_grad_norm=0.5)
    policy.optim = torch.optim.SGD(policy.model.parameters(), lr=1.0)
    before = weights(policy)
    batch = Batch(obs=torch.tensor([0, 1]), act=torch.tensor([1, 0]), returns=torch.tensor([3.0, 5.0]))
    policy.learn(batch, batch_size=None, repeat=1)
    assert (weights(policy) - before).norm().item() == pytest.approx(0.5, rel=1e-4)


def test_each_pass_has_each_row_once():
    policy, seen = make(), []
    step = policy.gradient_step
    policy.gradient_step = lambda sample: seen.append(sample.returns.tolist()) or step(sample)
    stats = policy.update(0, rollout(policy_of_numbers(policy)), batch_size=32, repeat=2)
    assert [len(part) for part in seen] == [32, 48, 32, 48]
    assert sorted(seen[0] + seen[1]) == sorted(seen[2] + seen[3])
    assert seen[0] != seen[2]
    assert stats.loss.min <= stats.loss.mean <= stats.loss.max


def policy_of_numbers(policy):
    """Act as a policy whose actions are tensors, as :func:`rollouts.rollout` wants them."""
    return lambda batch: Batch(act=torch.as_tensor(policy(batch).act))


def test_there_is_no_target_network():
    policy = make()
    assert policy.model_old is None
    assert {name.split(".")[0] for name in policy.state_dict()} == {"model", "_extra_state"}


def test_learning_goes_through_an_override_of_forward():
    quick, heard = make(), make()
    calls = forwarding(heard)
    buffer = rollout(policy_of_numbers(make()))
    for policy in (quick, heard):
        policy.update(0, buffer, batch_size=32, repeat=2)
    assert len(calls) == 1 + 4
    assert torch.allclose(weights(heard), weights(quick), atol=1e-6)


def test_a_graph_takes_the_steps_where_there_is_one(monkeypatch):
    monkeypatch.setattr(CompiledUpdate, "__call__", lambda *_: ({"loss": torch.tensor(7.0)}, None))
    batch = Batch(obs=torch.zeros(2, 4), act=torch.tensor([1, 0]), returns=torch.tensor([3.0, 5.0]))
    assert make(compile=True).learn(batch, batch_size=None, repeat=1).loss.mean == 7.0


@pytest.mark.pitfall("F10")
def test_resume_is_exact():
    def trained(policy, updates):
        for _ in range(updates):
            policy.update(0, buffer, batch_size=16, repeat=2)
        return policy

    buffer = rollout(policy_of_numbers(make()))
    whole, file = trained(make(), 4), io.BytesIO()
    torch.save(trained(make(), 1).state_dict(), file)
    file.seek(0)
    resumed = make(seed=5)
    resumed.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(weights(trained(resumed, 3)), weights(whole))


@pytest.mark.pitfall("F7")
def test_a_graph_gives_the_same(monkeypatch):
    monkeypatch.setattr(CompiledUpdate, "backend", "aot_eager")
    torch._dynamo.reset()
    eager, graph = make(optim=adam(1e-3)), make(optim=adam(1e-3), compile=True)
    buffer = rollout(policy_of_numbers(make()))
    for policy in (eager, graph):
        for _ in range(5):
            policy.update(0, buffer, batch_size=40, repeat=2)
    assert torch.allclose(weights(graph), weights(eager), atol=1e-5)


@pytest.mark.parametrize(("name", "value"), [("q_lambda", 1.5), ("max_batchsize", 0), ("max_grad_norm", -1.0)])
def test_bad_options(name, value):
    with pytest.raises(ValueError, match=f"{name} must"):
        make(**{name: value})
