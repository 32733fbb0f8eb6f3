"""Algorithms call methods that a subclass, an assignment or a hook has replaced, as in Tianshou 1.0."""

from unittest import mock

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from torch import nn

from rlfast.data import Batch, ReplayBuffer, VectorReplayBuffer
from rlfast.functional import Categorical
from rlfast.policy import DiscreteSACPolicy, DQNPolicy, PPOPolicy, SACPolicy
from rlfast.policy.components.overrides import Replaceable, replaceable
from rlfast.utils.net.common import ActorCritic, Net, Recurrent
from rlfast.utils.net.continuous import ActorProb
from rlfast.utils.net.continuous import Critic as ActionCritic
from rlfast.utils.net.discrete import Actor, Critic
from rlfast.utils.optim import adam


def filled(continuous=False, rings=2, steps=40):
    rng = np.random.default_rng(0)
    buffer = VectorReplayBuffer(rings * steps, rings, seed=0)
    for _ in range(steps):
        obs, obs_next = rng.normal(size=(2, rings, 4)).astype(np.float32)
        act = rng.uniform(-1, 1, (rings, 2)).astype(np.float32) if continuous else rng.integers(3, size=rings)
        end = rng.random(rings) < 0.2
        flags = {"terminated": end, "truncated": np.zeros(rings, bool)}
        buffer.add(Batch(obs=obs, act=act, rew=rng.normal(size=rings), obs_next=obs_next, info={}, **flags))
    return buffer


def dqn(kind=DQNPolicy, **options):
    net = options.pop("model", None) or Net(4, 3, [16])
    given = {"action_space": Discrete(3), "target_update_freq": 3, "estimation_step": 2}
    return kind(model=net, optim=torch.optim.Adam(net.parameters(), lr=0.01), **given | options)


def sac(kind=SACPolicy, **options):
    return kind(
        actor=ActorProb(Net(4, hidden_sizes=[16]), 2, unbounded=True, conditioned_sigma=True),
        critic=ActionCritic(Net(4, 2, hidden_sizes=[16], concat=True)),
        critic2=ActionCritic(Net(4, 2, hidden_sizes=[16], concat=True)),
        actor_optim=adam(0.01),
        critic_optim=adam(0.01),
        critic2_optim=adam(0.01),
        action_space=Box(-1, 1, (2,)),
        **{"estimation_step": 2} | options,
    )


def ppo(kind=PPOPolicy, **options):
    actor, critic = Actor(Net(4, hidden_sizes=[16]), 3, softmax_output=False), Critic(Net(4, hidden_sizes=[16]))
    optim = torch.optim.Adam(ActorCritic(actor, critic).parameters(), lr=0.01)
    given = {"action_space": Discrete(3), "action_scaling": False, "dist_fn": Categorical}
    return kind(actor=actor, critic=critic, optim=optim, **given | options)


CASES = {
    DQNPolicy: (dqn, False, {"sample_size": 16}),
    SACPolicy: (sac, True, {"sample_size": 16}),
    PPOPolicy: (ppo, False, {"sample_size": 0, "batch_size": 40, "repeat": 2}),
}
CALLS = {DQNPolicy: 3, SACPolicy: 2, PPOPolicy: 5}


def learned(kind, prepare=lambda policy: policy, subclass=None, updates=3, **options):
    """Give the weights after some updates."""
    torch.manual_seed(0)
    np.random.seed(0)
    make, continuous, arguments = CASES[kind]
    policy = prepare(make(subclass or kind, **options))
    buffer = filled(continuous)
    for _ in range(updates):
        policy.update(buffer=buffer, **arguments)
    return torch.cat([p.detach().flatten() for p in policy.parameters()])


def counting(calls):
    def prepare(policy):
        forward = policy.forward

        def count(batch, *args, **kwargs):
            calls.append((batch, args, kwargs))
            return forward(batch, *args, **kwargs)

        policy.forward = count
        return policy

    return prepare


@pytest.mark.parametrize("kind", CASES)
class TestForward:
    def test_learning_goes_through_it_as_often_as_in_tianshou(self, kind):
        calls = []
        learned(kind, counting(calls), updates=1)
        assert len(calls) == CALLS[kind]
        assert all(isinstance(batch.obs, np.ndarray) for batch, _, _ in calls)  # as sampled: not a tensor

    def test_and_changes_nothing_by_itself(self, kind):
        assert torch.allclose(learned(kind, counting([])), learned(kind), atol=1e-6)

    @pytest.mark.parametrize("way", ["subclass", "call", "hook", "pre-hook", "class"])
    def test_every_way_to_replace_it_or_to_listen(self, kind, way):
        calls = []

        class Own(kind):
            def forward(self, batch, state=None, **kwargs):
                calls.append(batch)
                return super().forward(batch, state, **kwargs)

        class Called(kind):
            def __call__(self, *args, **kwargs):
                calls.append(args)
                return super().__call__(*args, **kwargs)

        def prepare(policy):
            if way == "hook":
                policy.register_forward_hook(lambda *_: calls.append(1))
            elif way == "pre-hook":
                policy.register_forward_pre_hook(lambda *_: calls.append(1))
            return policy

        stock = kind.forward
        if way == "class":
            with mock.patch.object(kind, "forward", lambda *args, **kwargs: calls.append(1) or stock(*args, **kwargs)):
                learned(kind, updates=1)
        else:
            learned(kind, prepare, {"subclass": Own, "call": Called}.get(way), updates=1)
        assert len(calls) == CALLS[kind]

    def test_what_it_gives_is_learned_from(self, kind):
        class Own(kind):
            def forward(self, batch, state=None, **kwargs):
                obs = np.asarray(batch.obs) * 0.5
                return super().forward(Batch(batch, obs=obs), state, **kwargs)

        assert not torch.allclose(learned(kind, subclass=Own), learned(kind), atol=1e-4)

    def test_a_graph_would_leave_it_out(self, kind):
        class Own(kind):
            def forward(self, batch, state=None, **kwargs):
                return super().forward(batch, state, **kwargs)

        with pytest.raises(ValueError, match=r"compile=True makes one graph .* Own has replaced one of __call__"):
            learned(kind, subclass=Own, compile=True)
        with pytest.raises(ValueError, match="or has hooks: leave compile at False"):
            learned(kind, counting([]), compile=True)


def test_the_arguments_of_dqns_calls_are_tianshous():
    calls = []
    learned(DQNPolicy, counting(calls), updates=1)
    (chosen, args, kwargs), (rated, _, of_old), (sample, _, _) = calls
    assert kwargs == {}
    assert args == (None,)
    assert of_old == {"model": "model_old"}
    assert chosen.obs is rated.obs
    assert chosen.info.tolist() == [None] * 16
    assert sample.keys() >= {"obs", "act", "rew", "terminated", "truncated", "obs_next", "info", "returns"}


@pytest.mark.parametrize(("options", "calls"), [({"target_update_freq": 0}, 2), ({"is_double": False}, 3)])
def test_dqn_without_a_target_network_and_in_its_first_form(options, calls):
    seen = []
    weights = learned(DQNPolicy, counting(seen), updates=1, **options)
    assert len(seen) == calls
    assert torch.allclose(weights, learned(DQNPolicy, updates=1, **options), atol=1e-6)


@pytest.mark.parametrize("is_double", [True, False])
def test_illegal_actions_are_left_out_on_either_way(is_double):
    class Masked(DQNPolicy):
        def forward(self, batch, state=None, **kwargs):
            return super().forward(batch, state, **kwargs)

    def returns(kind):
        torch.manual_seed(0)
        policy = dqn(kind, is_double=is_double, estimation_step=1)
        buffer, rng = ReplayBuffer(20), np.random.default_rng(0)
        for _ in range(20):
            obs = {"obs": rng.normal(size=4).astype(np.float32), "mask": np.array([True, False, rng.random() < 0.5])}
            buffer.add(Batch(obs=obs, act=0, rew=1.0, terminated=False, truncated=False, obs_next=obs, info={}))
        batch, indices = buffer.sample(0)
        return policy.process_fn(batch, buffer, indices).returns

    assert torch.allclose(returns(Masked), returns(DQNPolicy), atol=1e-6)


def test_action_values_of_a_subclass_choose_and_are_not_themselves_the_target():
    """As in Tianshou: a bonus decides what is done next, and the model's own values are learned from."""

    class Optimistic(DQNPolicy):
        def compute_q_value(self, logits, mask):
            return super().compute_q_value(logits, mask) + torch.tensor([0.0, 0.0, 100.0])

    torch.manual_seed(0)
    policy = dqn(Optimistic, estimation_step=1)
    buffer = filled()
    batch, indices = buffer[np.arange(16)], np.arange(16)
    terminated = torch.as_tensor(batch.terminated)
    values = policy.model_old(batch.obs_next)[0][:, 2].detach()
    wanted = torch.as_tensor(batch.rew).float() + 0.99 * values.masked_fill(terminated, 0)
    assert torch.allclose(policy.process_fn(batch, buffer, indices).returns.flatten(), wanted, atol=1e-5)


@pytest.mark.parametrize("kind", [DQNPolicy, SACPolicy])
class TestTargets:
    def test_those_of_a_subclass_are_learned_from(self, kind):
        seen = []

        class Own(kind):
            def _target_q(self, buffer, indices):
                seen.append((buffer, indices))
                return super()._target_q(buffer, indices)

        assert torch.allclose(learned(kind, subclass=Own), learned(kind), atol=1e-6)
        assert len(seen) == 3
        assert len(seen[0][0]) == 80
        assert seen[0][1].shape == (16,)

    def test_those_that_are_assigned(self, kind):
        def prepare(policy):
            policy._target_q = lambda buffer, indices: torch.full((len(indices), 1), 7.0)
            return policy

        make, continuous, _ = CASES[kind]
        policy, buffer, rows = prepare(make(kind, estimation_step=1)), filled(continuous), np.arange(16)
        batch = policy.process_fn(buffer[rows], buffer, rows)
        expected = buffer.rew[rows] + 0.99 * 7 * ~buffer.terminated[rows]
        assert batch.returns.flatten().tolist() == pytest.approx(expected, rel=1e-5)


def test_a_critics_loss_of_a_subclass_of_sac():
    steps = []

    class Huber(SACPolicy):
        @staticmethod
        def _mse_optimizer(batch, critic, optimizer):
            value = critic(batch.obs, batch.act).flatten()
            loss = nn.functional.huber_loss(value, batch.returns.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps.append(loss.item())
            return value - batch.returns.flatten(), loss

    class Same(SACPolicy):
        @staticmethod
        def _mse_optimizer(batch, critic, optimizer):
            return SACPolicy._mse_optimizer(batch, critic, optimizer)

    assert not torch.allclose(learned(SACPolicy, subclass=Huber), learned(SACPolicy), atol=1e-4)
    assert len(steps) == 6
    assert torch.allclose(learned(SACPolicy, subclass=Same), learned(SACPolicy), atol=1e-6)


@pytest.mark.parametrize("recompute", [False, True])
def test_returns_of_a_subclass_of_ppo(recompute):
    calls = []

    class Own(PPOPolicy):
        def _compute_returns(self, batch, buffer, indices):
            batch = super()._compute_returns(batch, buffer, indices)
            calls.append(len(indices))
            batch.adv = batch.adv * 0
            return batch

    options = {"recompute_advantage": recompute, "advantage_normalization": False, "vf_coef": 0.0, "ent_coef": 0.0}
    assert torch.equal(learned(PPOPolicy, subclass=Own, **options), learned(PPOPolicy, subclass=Own, updates=0))
    assert calls == [80] * (6 if recompute else 3)


@pytest.mark.parametrize(("kind", "name", "count"), [(DQNPolicy, "sync_weight", 1), (SACPolicy, "soft_update", 6)])
def test_how_target_networks_follow(kind, name, count):
    calls = []

    class Own(kind):
        def sync_weight(self):
            calls.append("sync_weight")
            super().sync_weight()

        def soft_update(self, tgt, src, tau):
            calls.append("soft_update")
            kind.soft_update(tgt, src, tau)

    assert torch.equal(learned(kind, subclass=Own), learned(kind))
    assert calls.count(name) == count


def test_what_a_process_fn_of_others_leaves_as_arrays():
    class Own(PPOPolicy):
        def process_fn(self, batch, buffer, indices):
            with torch.no_grad():
                batch.v_s = self.critic(batch.obs).flatten().numpy()
                batch.logp_old = self(batch).dist.log_prob(torch.as_tensor(batch.act)).numpy()
            batch.returns = np.asarray(batch.rew)
            batch.adv = batch.returns - batch.v_s
            return batch

    assert not torch.equal(learned(PPOPolicy, subclass=Own), learned(PPOPolicy, updates=0))


class OwnNet(nn.Module):
    """A network as tutorials write it: for arrays, which is what buffers give."""

    def __init__(self, size, output=3, act=0):
        super().__init__()
        self.layer, self.output_dim = nn.Linear(size + act, output), output
        self.seen = []

    def forward(self, obs, state=None, info=None):
        self.seen.append(type(obs))
        return self.layer(torch.from_numpy(obs).float()), state


class OwnCritic(OwnNet):
    def forward(self, obs, act=None, info=None):
        self.seen.append(type(obs))
        x = torch.from_numpy(obs).float()
        x = x if act is None else torch.cat([x, torch.as_tensor(act)], 1)
        return self.layer(x)


def test_networks_of_others_are_given_what_buffers_give():
    actor, critic = OwnNet(4), OwnCritic(4, 1)
    optim = torch.optim.Adam(ActorCritic(actor, critic).parameters())
    policy = PPOPolicy(
        actor=actor,
        critic=critic,
        optim=optim,
        dist_fn=Categorical,
        action_space=Discrete(3),
        action_scaling=False,
    )
    policy.update(0, filled(), batch_size=16, repeat=2)
    critics = [OwnCritic(4, 1, act=2) for _ in range(2)]
    actor = ActorProb(OwnNet(4, 8), 2, unbounded=True, conditioned_sigma=True)
    learner = SACPolicy(
        actor=actor,
        actor_optim=adam(),
        critic=critics[0],
        critic_optim=adam(),
        critic2=critics[1],
        critic2_optim=adam(),
        action_space=Box(-1, 1, (2,)),
    )
    learner.update(16, filled(continuous=True))
    assert {*policy.actor.seen, *policy.critic.seen, *critics[0].seen, *actor.preprocess.seen} == {np.ndarray}


def test_hidden_states_that_were_stored_are_given_on():
    states = []

    class Own(DQNPolicy):
        def forward(self, batch, state=None, **kwargs):
            states.append(state)
            return super().forward(batch, state, **kwargs)

    policy = dqn(Own, model=Recurrent(1, 4, 3, hidden_layer_size=8), estimation_step=1)
    buffer = ReplayBuffer(20)
    for step in range(20):
        obs = np.full(4, step, np.float32)
        hidden = {"hidden": np.full((1, 8), step, np.float32), "cell": np.zeros((1, 8), np.float32)}
        row = {"obs": obs, "act": 0, "rew": 1.0, "terminated": False, "truncated": False, "obs_next": obs}
        buffer.add(Batch(**row, info={}, policy={"hidden_state": hidden}))
    policy.update(8, buffer)
    assert len(states) == 3
    assert all(state.hidden.shape == (8, 1, 8) for state in states)


def test_modes_of_networks_that_a_subclass_adds_stay():
    class Own(DQNPolicy):
        def __init__(self, **options):
            super().__init__(**options)
            self.extra = nn.Dropout().eval()

    for mode in (False, True):
        policy = dqn(Own).train(mode)
        assert policy.training is policy.model.training is mode
        assert not policy.extra.training
        assert not policy.model_old.training
    learner = sac()
    learner.own = nn.Dropout().eval()
    learner.eval().train()
    assert all(network.training for network in (learner, learner.actor, learner.critic, learner.critic2))
    assert not any(network.training for network in (learner.own, learner.critic_old, learner.critic2_old))


def test_methods_of_every_base_are_known():
    """Also where the first of several bases has marked methods of its own."""
    for kind in (DiscreteSACPolicy, SACPolicy, DQNPolicy, PPOPolicy):
        assert {"__call__", "forward", "map_action", "map_action_inverse"} <= set(kind._replaceable)
        assert kind._replaceable["map_action"] is kind.map_action


def test_discrete_sac_counts_from_zero_in_a_space_that_does_not():
    nets = {"actor": Actor(Net(4, hidden_sizes=[8]), 3, softmax_output=False), "critic": Critic(Net(4), last_size=3)}
    step = adam(1e-3)
    policy = DiscreteSACPolicy(**nets, actor_optim=step, critic_optim=step, action_space=Discrete(3, start=5))
    assert policy.map_action(np.array([0, 2])).tolist() == [5, 7]
    assert policy.map_action_inverse(np.array([5, 7])).tolist() == [0, 2]
    assert 5 <= policy.compute_action(np.zeros(4, np.float32)) < 8


def test_marks_of_all_bases_are_kept_and_a_later_one_counts():
    @replaceable("first")
    class First(Replaceable):
        def first(self): ...

    @replaceable("second")
    class Second(Replaceable):
        def second(self): ...

    @replaceable("second", "third")
    class Both(First, Second):
        def second(self): ...

        def third(self): ...

    both = Both()
    assert not both.is_replaced("first", "second", "third")
    assert {**Both._replaceable} == {"first": First.first, "second": Both.second, "third": Both.third}
    both.third = lambda: None
    assert [both.is_replaced(name) for name in ("first", "second", "third")] == [False, False, True]
