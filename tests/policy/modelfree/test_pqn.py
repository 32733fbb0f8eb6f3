import io
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete
from torch import nn
from torch.nn import functional

from distributional import Table
from policy.given import forwarding
from rlfast.data import Batch, Collector, VectorReplayBuffer
from rlfast.env import DummyVectorEnv
from rlfast.experiment import ALGORITHMS
from rlfast.experiment.networks import Networks
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


def acted(policy, steps=6):
    """Collect in two environments whose episodes have three steps, the first of which ends by time."""
    envs = DummyVectorEnv([partial(Walk, 3, truncates=i == 0) for i in range(2)])
    buffer = VectorReplayBuffer(2 * steps, 2)
    with Collector(policy, envs, buffer, exploration_noise=True, native_acting=False) as collector:
        collector.collect(n_step=2 * steps)
    return buffer


class Walk(gym.Env):
    """Counts its steps, modulo the number of values."""

    observation_space, action_space = Discrete(4), Discrete(2)

    def __init__(self, length, *, truncates):
        self.length, self.truncates, self.start = length, truncates, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.start = self.start, (self.start + 1) % 2
        self.end = self.place + self.length
        return self.place % 4, {}

    def step(self, action):
        self.place += 1
        over = self.place == self.end
        return self.place % 4, float(self.place), over and not self.truncates, over and self.truncates, {}


def test_values_of_acting_are_not_computed_again():
    policy = make(Table(VALUES), actions=2, q_lambda=0.5)
    buffer, asked = acted(policy), []
    assert buffer.policy.value.tolist() == [max(VALUES[state]) for state in buffer.obs]
    next_value = policy.next_value
    policy.next_value = lambda obs, *rest: asked.extend(obs.tolist()) or next_value(obs, *rest)
    found = returns(policy, buffer)
    ends = buffer.done | np.isin(np.arange(len(buffer)), buffer.last_index)
    assert asked == buffer.obs_next[ends].tolist()
    buffer.policy.value[:] = 0  # as of rows that were not chosen by values
    assert found == pytest.approx(returns(policy, buffer), rel=1e-6)
    assert len(asked) == ends.sum() + len(buffer)


def test_values_of_acting_are_those_of_its_weights():
    policy = make(Table(VALUES), actions=2, q_lambda=0.0, discount_factor=0.5)
    buffer = acted(policy)
    policy.model.values.data += 100
    before = [0.5 * max(VALUES[state]) for state in buffer.obs_next]
    ends = buffer.done | np.isin(np.arange(len(buffer)), buffer.last_index)
    later = [value + 50 * end for value, end in zip(before, ends, strict=True)]
    values = np.where(buffer.terminated, 0.0, later)
    assert returns(policy, buffer) == pytest.approx((buffer.rew + values).tolist())


@pytest.mark.parametrize(
    "override", [{"next_value": lambda self, obs, *_: torch.full((len(obs),), 7.0)}, {"values": PQNPolicy.forward}]
)
def test_other_values_are_not_stored(override):
    kind = type("Other", (PQNPolicy,), override)
    policy = kind(model=Table(VALUES), optim=adam(1e-2), action_space=Discrete(2), q_lambda=0.0, discount_factor=0.5)
    buffer = acted(policy)
    assert "value" not in buffer[:1].policy
    if "next_value" in override:
        assert returns(policy, buffer) == (buffer.rew + np.where(buffer.terminated, 0.0, 3.5)).tolist()


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


def test_an_update_on_pictures_by_hand():
    config = ALGORITHMS["pqn"].config(channels=(2, 3, 2), hidden_sizes=(4,), activation="relu")
    space = gym.spaces.Box(0, 255, (1, 36, 36), np.uint8)
    torch.manual_seed(0)
    model = Networks(config, "PQN", space, Discrete(2)).action_values().double()
    policy = make(model, actions=2, q_lambda=0.25, discount_factor=0.5, max_grad_norm=None)
    policy.optim = torch.optim.SGD(model.parameters(), lr=0.5)
    pictures = np.random.default_rng(0).integers(0, 256, (4, 1, 1, 36, 36), np.uint8)
    buffer = VectorReplayBuffer(3, 1)
    for step, act in enumerate((1, 0, 1)):
        flags = {"terminated": np.array([False]), "truncated": np.array([False])}
        row = {"obs": pictures[step], "act": np.array([act]), "rew": np.array([step + 1.0]), "info": {}}
        buffer.add(Batch(obs_next=pictures[step + 1], **row, **flags))
    weights = [parameter.detach().clone().requires_grad_() for parameter in model.parameters()]

    def values(images):
        x, rest = torch.as_tensor(images[:, 0]).double() / 255, iter(weights)
        for stride in (4, 2, 1):
            x = functional.conv2d(x, next(rest), next(rest), stride)
            x = functional.group_norm(x, 1, next(rest), next(rest)).relu()
        x = functional.linear(x.flatten(1), next(rest), next(rest))
        x = functional.layer_norm(x, (4,), next(rest), next(rest)).relu()
        return functional.linear(x, next(rest), next(rest))

    q = values(pictures)
    greatest = q.max(dim=1).values.tolist()
    returns = [3 + 0.5 * greatest[3]]
    for reward, value in ((2, greatest[2]), (1, greatest[1])):
        returns.insert(0, reward + 0.5 * (0.75 * value + 0.25 * returns[0]))
    loss = (torch.tensor(returns) - q[torch.arange(3), [1, 0, 1]]).square().mean()
    loss.backward()
    stats = policy.update(0, buffer, batch_size=None, repeat=1)
    assert stats.loss.mean == pytest.approx(loss.item())
    for weight, parameter in zip(weights, model.parameters(), strict=True):
        assert torch.allclose(parameter, weight - 0.5 * weight.grad, atol=1e-7)


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
