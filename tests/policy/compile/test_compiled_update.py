"""Compiled updates equal eager ones, change the networks that act, and are saved in the same way."""

import copy

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from torch import nn
from torch._dynamo.utils import counters

from rlfast.data import Batch, VectorReplayBuffer
from rlfast.functional import Categorical
from rlfast.policy import AutoAlpha, BranchingDQNPolicy, DQNPolicy, PPOPolicy, SACPolicy
from rlfast.policy.compile.compiled_update import CompiledUpdate
from rlfast.utils.net.common import BranchingNet, Net
from rlfast.utils.net.continuous import ActorProb
from rlfast.utils.net.continuous import Critic as ActionCritic
from rlfast.utils.net.discrete import Actor, Critic
from rlfast.utils.optim import adam, descend
from rlfast.utils.progress_bar import ProgressBar


def make_dqn(*, seed=0, **options):
    torch.manual_seed(seed)
    net = Net(4, 3, hidden_sizes=[16])
    defaults = {"target_update_freq": 7, "estimation_step": 2, "clip_loss_grad": True, "optim": adam(1e-3)}
    return DQNPolicy(model=net, action_space=Discrete(3), **defaults | options)


def make_sac(*, seed=0, **options):
    torch.manual_seed(seed)
    return SACPolicy(
        actor=ActorProb(Net(4, hidden_sizes=[16]), 1, unbounded=True, conditioned_sigma=True),
        actor_optim=adam(1e-3),
        critic=ActionCritic(Net(4, 1, hidden_sizes=[16], concat=True)),
        critic_optim=adam(1e-3),
        action_space=Box(-1, 1, (1,)),
        alpha=AutoAlpha(-1.0, 0.0, adam(1e-3)),
        estimation_step=2,
        **options,
    )


def make_ppo(*, seed=0, **options):
    torch.manual_seed(seed)
    defaults = {"max_grad_norm": 0.5, "value_clip": True, "dual_clip": 3.0}
    nets = {
        "actor": Actor(Net(4, hidden_sizes=[16]), 3, softmax_output=False),
        "critic": Critic(Net(4, hidden_sizes=[16])),
    }
    policy = PPOPolicy(
        optim=adam(1e-3),
        dist_fn=Categorical,
        action_space=Discrete(3),
        action_scaling=False,
        **nets | defaults | options,
    )
    policy.seed(seed)
    return policy


MAKE = {"dqn": make_dqn, "sac": make_sac, "ppo": make_ppo}


def transitions(name):
    rng = np.random.default_rng(0)
    buffer = VectorReplayBuffer(400, 4, seed=0)
    for t in range(100):
        obs, obs_next = rng.normal(size=(2, 4, 4)).astype(np.float32)
        act = rng.uniform(-1, 1, (4, 1)).astype(np.float32) if name == "sac" else rng.integers(3, size=4)
        flags = {"terminated": np.full(4, t % 10 == 9), "truncated": np.full(4, t % 7 == 6)}
        buffer.add(Batch(obs=obs, act=act, rew=rng.normal(size=4), obs_next=obs_next, info={}, **flags))
    return buffer


def weights(policy):
    return torch.cat([p.detach().flatten().clone() for p in policy.parameters()])


def train(name, policy, buffer, updates):
    """Do so many gradient steps, on the same samples and noise for each policy."""
    losses = []
    for step in range(updates // 10 if name == "ppo" else updates):
        torch.manual_seed(step)
        if name == "ppo":
            stats = policy.update(0, buffer, batch_size=90, repeat=3)  # 90, 90, 90, 130
            summaries = (stats.loss, stats.clip_loss, stats.vf_loss, stats.ent_loss)
            losses.append([getattr(one, part) for one in summaries for part in ("mean", "std", "max", "min")])
        else:
            indices = np.random.default_rng(step).integers(400, size=32)
            batch = policy.process_fn(buffer[indices], buffer, indices)
            losses.append([*policy.learn(batch).get_loss_stats_dict().values()])
    return np.array(losses)


def compare_over_100_updates(name):
    eager, compiled = MAKE[name](), MAKE[name](compile=True)
    buffer = transitions(name)
    assert train(name, compiled, buffer, 50) == pytest.approx(train(name, eager, buffer, 50), abs=1e-5)
    graphs = counters["stats"]["unique_graphs"]
    assert graphs >= 1
    assert train(name, compiled, buffer, 50) == pytest.approx(train(name, eager, buffer, 50), abs=1e-5)
    assert weights(compiled).numpy() == pytest.approx(weights(eager).numpy(), abs=1e-5)
    assert counters["stats"]["unique_graphs"] == graphs
    return eager, compiled, buffer


@pytest.fixture(autouse=True)
def _forget_graphs():
    torch._dynamo.reset()
    counters.clear()


@pytest.mark.pitfall("F7")
@pytest.mark.pitfall("F6")
@pytest.mark.parametrize("name", MAKE)
def test_eager_and_compiled_agree_and_exchange_checkpoints(name, monkeypatch):
    monkeypatch.setattr(CompiledUpdate, "backend", "aot_eager")
    eager, compiled, buffer = compare_over_100_updates(name)
    # who acts sees the new weights at once
    obs = Batch(obs=np.random.default_rng(1).normal(size=(5, 4)).astype(np.float32), info={})
    acted = [policy.eval()(obs).logits for policy in (eager, compiled)]
    assert torch.allclose(torch.cat([*acted[0]]), torch.cat([*acted[1]]), atol=1e-4)
    # and checkpoints move both ways
    other = MAKE[name](seed=1)
    other.load_state_dict(copy.deepcopy(compiled.state_dict()))
    compiled.load_state_dict(copy.deepcopy(eager.state_dict()))
    for policy in (eager, compiled, other):
        train(name, policy.train(), buffer, 20)
    for policy in (compiled, other):
        assert weights(policy).numpy() == pytest.approx(weights(eager).numpy(), abs=1e-4)


@pytest.mark.parametrize("name", ["dqn", "sac"])
def test_importance_weights_count_in_graphs(name, monkeypatch):
    monkeypatch.setattr(CompiledUpdate, "backend", "aot_eager")
    buffer, losses = transitions(name), []
    for options in ({}, {"compile": True}):
        policy = MAKE[name](**options)
        for step in range(4):
            torch.manual_seed(step)
            rng = np.random.default_rng(step)
            indices = rng.integers(400, size=32)
            batch = buffer[indices]
            batch.weight = rng.uniform(0, 0.5, 32)
            batch = policy.process_fn(batch, buffer, indices)
            losses.append([*policy.learn(batch).get_loss_stats_dict().values()])
    assert np.array(losses[4:]) == pytest.approx(np.array(losses[:4]), abs=1e-5)


def test_weights_of_losses_may_change(monkeypatch):
    monkeypatch.setattr(CompiledUpdate, "backend", "aot_eager")
    eager, compiled, buffer = make_ppo(), make_ppo(compile=True), transitions("ppo")
    for ent_coef, vf_coef in ((0.01, 0.5), (0.3, 0.5), (0.0, 0.25), (0.2, 0.0)):
        losses = []
        for policy in (eager, compiled):
            policy.ent_coef, policy.vf_coef = ent_coef, vf_coef
            losses.append(train("ppo", policy, buffer, 10))
        assert losses[1] == pytest.approx(losses[0], abs=1e-5)
    assert weights(compiled).numpy() == pytest.approx(weights(eager).numpy(), abs=1e-5)


@pytest.mark.long
@pytest.mark.pitfall("F7")
@pytest.mark.parametrize("name", MAKE)
def test_machine_code_agrees_as_well(name):
    compare_over_100_updates(name)


def test_copies_learn_for_themselves(monkeypatch):
    monkeypatch.setattr(CompiledUpdate, "backend", "eager")
    policy, buffer = make_dqn(compile=True), transitions("dqn")
    train("dqn", policy, buffer, 5)
    other = copy.deepcopy(policy)
    before = weights(policy)
    train("dqn", other, buffer, 5)
    assert torch.equal(weights(policy), before)
    assert not torch.equal(weights(other), before)


def test_a_network_of_two_heads_is_computed_once(monkeypatch):
    graphs = []
    monkeypatch.setattr(CompiledUpdate, "backend", staticmethod(lambda graph, _: graphs.append(graph) or graph))
    torch.manual_seed(0)
    net, buffer = Net(4, hidden_sizes=[16]), transitions("ppo")
    shared = {"actor": Actor(net, 3, softmax_output=False), "critic": Critic(net)}
    eager, compiled = make_ppo(**copy.deepcopy(shared)), make_ppo(**shared, compile=True)
    assert train("ppo", compiled, buffer, 10) == pytest.approx(train("ppo", eager, buffer, 10), abs=1e-5)
    assert weights(compiled).numpy() == pytest.approx(weights(eager).numpy(), abs=1e-5)
    assert sum("linear" in str(node.target) for node in graphs[0].graph.nodes) == 3  # that of the network, two heads


def test_the_first_update_makes_states_and_the_second_a_graph(monkeypatch):
    graphs, parameter = [], nn.Parameter(torch.ones(1))
    monkeypatch.setattr(CompiledUpdate, "backend", staticmethod(lambda graph, _: graphs.append(graph) or graph))
    optim = torch.optim.SGD([parameter], lr=0.25)

    def update(x):
        descend((parameter * x).sum(), optim)
        return parameter.detach() * 2

    with torch._dynamo.config.patch(trace_autograd_ops=False):  # torch's default, whatever was made before
        step = CompiledUpdate(update, lambda: [optim])
        for result, number in ((1.5, 0), (1.0, 1), (0.5, 1)):
            assert step(torch.ones(1)).item() == result
            assert len(graphs) == number


def test_other_arguments_take_one_trace(monkeypatch):
    monkeypatch.setattr(CompiledUpdate, "backend", "eager")
    traces, parameter = [], nn.Parameter(torch.ones(1))
    optim = torch.optim.SGD([parameter], lr=0.25)
    traced = torch.compiler.assume_constant_result(lambda size: traces.append(size) or 1.0)

    def update(x):
        descend((parameter * x).sum() * traced(len(x.shape)), optim)
        return parameter.detach() * 2

    with torch._dynamo.config.patch(trace_autograd_ops=False):
        step = CompiledUpdate(update, lambda: [optim])
        for axes in (1, 1, 1, 2):
            step(torch.ones([1] * axes))
    assert traces == [1, 1, 2]  # the first of them without a graph


def test_other_compiled_functions_are_as_without_rlfast(monkeypatch):
    monkeypatch.setattr(CompiledUpdate, "backend", "eager")
    policy, parameter = make_dqn(compile=True), nn.Parameter(torch.ones(1))
    train("dqn", policy, transitions("dqn"), 3)
    optim = torch.optim.SGD([parameter], lr=0.25)

    @torch.compile(backend="eager")
    def step(x):
        optim.zero_grad()
        (parameter * x).sum().backward()
        optim.step()

    step(torch.ones(1))
    assert parameter.item() == 0.75


def test_a_part_that_cannot_be_in_the_graph_is_an_error(monkeypatch):
    monkeypatch.setattr(CompiledUpdate, "backend", "eager")
    with pytest.raises(torch._dynamo.exc.Unsupported):
        CompiledUpdate(lambda x: [torch._dynamo.graph_break(), x], list)(torch.ones(1))


def test_each_policy_has_a_limit_of_recompilations_of_its_own(monkeypatch):
    monkeypatch.setattr(CompiledUpdate, "backend", "eager")
    with torch._dynamo.config.patch(recompile_limit=1):
        updates = [CompiledUpdate(lambda x, number=number: x + number, list) for number in range(3)]
        assert [update(torch.tensor(1.0)).item() for update in updates] == [1.0, 2.0, 3.0]


def test_sizes_are_constants_of_a_graph_whatever_those_of_other_policies_are(monkeypatch):
    inputs = []
    monkeypatch.setattr(CompiledUpdate, "backend", staticmethod(lambda graph, given: inputs.append(given) or graph))
    updates = [CompiledUpdate(lambda x, number=number: x + number, list) for number in range(3)]
    for size, update in enumerate(updates, 2):
        update(torch.ones(size))
    assert [[tuple(one.shape) for one in given] for given in inputs] == [[(2,)], [(3,)], [(4,)]]
    assert not any(isinstance(length, torch.SymInt) for given in inputs for one in given for length in one.shape)


def test_an_optimizer_that_cannot_be_compiled():
    with pytest.raises(ValueError, match="compile=True needs an optimizer whose step it knows"):
        make_dqn(compile=True, optim=torch.optim.Adagrad)


@pytest.mark.parametrize(
    ("kind", "net", "space"),
    [
        (DQNPolicy, lambda: Net(4, 3, [8]), Discrete(3)),
        (BranchingDQNPolicy, lambda: BranchingNet(4, 2, 3, [8], [6], [5]), MultiDiscrete([3, 3])),
    ],
)
def test_maps_of_actions_may_be_replaced(kind, net, space):
    class Mapping(kind):
        def map_action(self, act):
            return act + 1

    class Forwarding(kind):
        def forward(self, *args, **kwargs):
            return super().forward(*args, **kwargs)

    given = {"optim": adam(), "action_space": space, "compile": True}
    Mapping(model=net(), **given)
    with pytest.raises(ValueError, match=r"^compile=True makes one graph .*, and Forwarding overrides"):
        Forwarding(model=net(), **given)


def test_the_progress_bar_says_once_that_the_update_is_compiled(capsys, monkeypatch):
    monkeypatch.setattr(CompiledUpdate, "backend", "eager")
    monkeypatch.setattr("rlfast.utils.progress_bar._is_terminal", lambda: True)
    update = CompiledUpdate(lambda x: x + 1, list)
    with ProgressBar(10, "Epoch #1"):
        assert "compiling" not in capsys.readouterr().err
        assert update(torch.tensor(1.0)) == 2.0
        assert "compiling the update" in capsys.readouterr().err
        assert update(torch.tensor(2.0)) == 3.0
        assert "compiling" not in capsys.readouterr().err
