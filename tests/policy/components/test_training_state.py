"""Training state in any attribute or container is found, saved and restored."""

import copy
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete
from torch import nn
from torch.optim.lr_scheduler import ExponentialLR

from rlfast.data import Batch, ReplayBuffer
from rlfast.data.plain_data import is_plain, pack, unpack
from rlfast.exploration import GaussianNoise
from rlfast.policy import BasePolicy, DQNPolicy, TrainingStats
from rlfast.utils import MovAvg, RunningMeanStd
from rlfast.utils.net.common import Net
from rlfast.utils.runtime.seeding import SeededMixin


class Schedule:
    def __init__(self, start):
        self.start, self.steps = start, 0
        self.inner = {"depth": [0, np.zeros(2)]}


class Curiosity(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(2, 1)
        self.optim = torch.optim.Adam(self.net.parameters(), lr=0.1)
        self.count = 0


class Everywhere(BasePolicy):
    """Keeps its state in every kind of place."""

    def __init__(self, seed=0, gamma=0.9):
        torch.manual_seed(seed)
        super().__init__(action_space=Discrete(2))
        self.gamma = gamma
        self.critics = nn.ModuleList(nn.Linear(2, 1) for _ in range(2))
        self.critic_optims = [torch.optim.Adam(critic.parameters(), lr=0.1) for critic in self.critics]
        self.log_alpha = torch.zeros(1, requires_grad=True)
        self.optims = {"alpha": torch.optim.Adam([self.log_alpha], lr=0.1)}
        self.lr_schedules = (ExponentialLR(self.critic_optims[0], 0.5),)
        self.curiosity = Curiosity()
        self.schedule = Schedule(gamma)
        self.unregistered = [nn.Linear(1, 1)]
        self.noises = {"act": GaussianNoise(seed=seed)}
        self.stream, self.torch_stream = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
        self.rms = [RunningMeanStd()]
        self.counters = {"updates": 0, "losses": deque([0.0], maxlen=3)}
        self.last, self.mean, self.scale = None, np.zeros(2), np.float32(1)
        self.history, self.phase = [], "warm-up"

    def forward(self, batch, state=None, **kwargs):
        return Batch(act=np.zeros(len(batch.obs), np.int64))

    def learn(self, batch, *args, **kwargs):
        x = torch.randn(4, 2, generator=self.torch_stream) * float(self.stream.random())
        losses = [critic(x).square().mean() + self.log_alpha.exp().sum() for critic in self.critics]
        losses.append(self.curiosity.net(x).square().mean())
        for optim in (*self.critic_optims, *self.optims.values(), self.curiosity.optim):
            optim.zero_grad()
        sum(losses).backward()
        for optim in (*self.critic_optims, *self.optims.values(), self.curiosity.optim):
            optim.step()
        self.lr_schedules[0].step()
        with torch.no_grad():
            self.unregistered[0].bias.add_(1)
        self.rms[0].update(x.numpy())
        self.curiosity.count += 1
        self.schedule.steps += 2
        self.schedule.inner["depth"][0] += 3
        self.schedule.inner["depth"][1] += 4
        self.counters["updates"] += 1
        self.counters["losses"].append(losses[0].item())
        self.last, self.scale, self.phase = losses[0].item(), self.scale * np.float32(2), "on"
        self.mean += self.noises["act"]((2,))
        self.best = min(getattr(self, "best", np.inf), self.last)  # born while learning
        self.history.append((self.last, self.phase))
        return TrainingStats()


BUFFER = ReplayBuffer(1)
BUFFER.add(Batch(obs=0.0, act=0, rew=1.0, terminated=False, truncated=False, obs_next=0.0, info={}))


def trained(policy, updates):
    for _ in range(updates):
        policy.update(1, BUFFER)
    return policy


def everything(policy):
    counted = (
        *(policy.curiosity.count, policy.schedule.steps, policy.schedule.inner["depth"][0], policy.counters["updates"]),
        *(policy.counters["losses"], policy.last, policy.scale, type(policy.scale), policy.phase, policy.best),
        *(policy.history, policy.rms[0].count),
        [optim.param_groups[0]["lr"] for optim in policy.critic_optims],
    )
    arrays = [policy.mean, policy.schedule.inner["depth"][1], policy.rms[0].mean, policy.unregistered[0].bias.item()]
    weights = [p.detach().numpy() for p in (*policy.parameters(), policy.log_alpha)]
    return counted, [np.asarray(array).tolist() for array in (*arrays, *weights)]


@pytest.mark.pitfall("F10")
@pytest.mark.parametrize("updates_before_loading", [0, 2])
def test_training_goes_on_bit_for_bit(tmp_path, updates_before_loading):
    policy, other = trained(Everywhere(0), 3), trained(Everywhere(1), updates_before_loading)
    torch.save(policy.state_dict(), tmp_path / "policy.pth")
    trained(policy, 3)
    log_alpha, mean, losses = other.log_alpha, other.mean, other.counters["losses"]
    other.load_state_dict(torch.load(tmp_path / "policy.pth", weights_only=True))
    assert everything(trained(other, 3)) == everything(policy)
    assert other.log_alpha is log_alpha  # others hold them
    assert other.optims["alpha"].param_groups[0]["params"] == [log_alpha]
    assert other.mean is mean
    assert other.counters["losses"] is losses
    assert losses.maxlen == 3


@dataclass(slots=True)
class Slots:
    steps: int
    optim: torch.optim.Optimizer


class SlotsBelow(Slots):
    __slots__ = "_last"  # noqa: PLC0205


class Tabular(Everywhere):
    """Counts in containers whose keys are no strings, and in objects with slots."""

    def __init__(self, seed=0):
        super().__init__(seed)
        self.critics.append(nn.Linear(2, 1))
        self.below = SlotsBelow(0, torch.optim.Adam(self.critics[2].parameters(), lr=0.1))
        self.visits, self.pairs, self.order = defaultdict(int), Counter(), OrderedDict()
        self.seen, self.fixed = set(), frozenset()

    def learn(self, batch, *args, **kwargs):
        self.below.optim.zero_grad()
        self.critics[2](torch.ones(2)).sum().square().backward()
        self.below.optim.step()
        self.below.steps += 1
        self.below._last = self.below.steps / 2
        self.visits[self.below.steps % 2] += 1
        self.visits[np.int64(7)] += 1
        self.pairs[1, ("x", self.below.steps)] += 1
        self.order[-self.below.steps] = np.ones(1)
        self.seen.add((np.int64(3), self.below.steps))
        self.fixed |= {self.below.steps, "one", (0, 1)}
        return super().learn(batch, *args, **kwargs)

    def counted(self):
        order = [(key, value.tolist()) for key, value in self.order.items()]
        return self.below.steps, self.below._last, self.visits, self.pairs, order, self.seen, self.fixed


@pytest.mark.parametrize("updates_before_loading", [0, 2])
def test_keys_that_are_no_strings_and_slots_go_on(tmp_path, updates_before_loading):
    policy, other = trained(Tabular(0), 3), trained(Tabular(1), updates_before_loading)
    torch.save(policy.state_dict(), tmp_path / "policy.pth")
    written = pack(policy.get_extra_state())  # as in checkpoints
    trained(policy, 2)
    visits, seen = other.visits, other.seen
    other.load_state_dict(torch.load(tmp_path / "policy.pth", weights_only=True))
    assert other.below._last == 1.5
    other.set_extra_state(unpack(*written))
    trained(other, 2)
    assert other.counted() == policy.counted()
    assert everything(other) == everything(policy)
    assert (type(other.visits), type(other.pairs), type(other.order)) == (defaultdict, Counter, OrderedDict)
    assert other.visits is visits  # others hold them
    assert other.seen is seen


def test_optimizers_and_parts_have_the_names_of_their_places():
    state = Everywhere().get_extra_state()
    assert [*state["optimizers"]] == ["critic_optims.0", "critic_optims.1", "optims.alpha", "curiosity.optim"]
    assert [*state["parts"]] == [*("stream", "torch_stream", "lr_schedules.0", "unregistered.0", "noises.act", "rms.0")]
    places = [*state["values"]["changed"], *state["values"]["made_with"]]
    assert "history" in places  # an empty list may fill
    assert "mean" not in places  # an array that has not changed is an argument
    assert not any("optim" in place or place.endswith("in_features") for place in places)
    assert not any(place.startswith("rms") for place in places)  # a part saves all of itself
    assert is_plain(trained(Everywhere(), 2).get_extra_state())  # what a checkpoint can write down


def test_arguments_of_the_constructor_stay_those_of_the_policy_that_goes_on():
    other = Everywhere(gamma=0.5)
    other.load_state_dict(trained(Everywhere(gamma=0.9), 2).state_dict())
    assert (other.gamma, other.schedule.start) == (0.5, 0.5)


def test_a_number_that_was_annealed_goes_on_where_it_was():
    policy, other = Everywhere(gamma=0.9), Everywhere(gamma=0.9)
    policy.gamma = 0.99
    other.load_state_dict(policy.state_dict())
    assert other.gamma == 0.99


def test_a_number_that_had_not_changed_is_set_back():
    other = Everywhere()
    other.gamma, other.curiosity.count = 0.1, 7
    other.load_state_dict(Everywhere().state_dict())
    assert (other.gamma, other.curiosity.count) == (0.9, 0)


def test_a_policy_in_a_policy_writes_its_state_down_itself():
    class Around(Everywhere):
        def __init__(self, seed=0):
            super().__init__(seed)
            self.policy = Everywhere(seed)

    state = Around().state_dict()
    assert "policy._extra_state" in state
    assert not any(name.startswith("policy") for name in state["_extra_state"]["optimizers"])
    policy, other = Around(), Around()
    trained(policy.policy, 2)
    other.load_state_dict(policy.state_dict())
    assert other.policy.counters["updates"] == 2


def test_policies_in_a_dict_are_saved_with_their_networks():
    class Team(Everywhere):
        def __init__(self):
            super().__init__()
            self.policies = {"a": Everywhere(1), "b": Everywhere(2)}

    team, other = Team(), Team()
    trained(team.policies["b"], 2)
    other.load_state_dict(team.state_dict())
    assert everything(trained(other.policies["b"], 1)) == everything(trained(team.policies["b"], 1))


class OwnEnv(gym.Env):
    def __init__(self):
        self.steps = 0


class Compiled:
    """A function as Cython makes it."""

    def __init__(self):
        self.calls = 0

    def __get__(self, instance, owner=None):
        return self


def test_what_a_policy_only_knows_of_is_no_part_of_it():
    class Knows(Everywhere):
        def __init__(self):
            super().__init__()
            self.env, self.buffer, self.space = gym.make("CartPole-v1"), ReplayBuffer(5), gym.spaces.Box(0, 1)
            self.function, self.kind, self.module = len, Everywhere, np
            self.itself, self.loop = self, [self]
            self.average = MovAvg()
            self.own_env, self.curve, self.compiled = OwnEnv(), np.polynomial.Polynomial([1.0]), Compiled()
            self.register_buffer("mask", torch.zeros(2))
            self.layer, self.mask_again, self.optim_again = self.critics[0], self.mask, self.critic_optims[0]

    policy = Knows()
    policy.mask += 1
    state = policy.get_extra_state()
    assert [*state["optimizers"]] == ["optim_again", "critic_optims.1", "optims.alpha", "curiosity.optim"]  # once each
    places = [*state["parts"], *state["values"]["changed"], *state["values"]["made_with"]]
    known = ("env", "buffer", "space", "itself", "loop", "function", "own_env", "curve", "compiled", "mask")
    assert not any(place.startswith(known) for place in places)
    assert "average.size" in places


def test_deep_structures_end():
    class Node:
        def __init__(self):
            self.count, self.next = 0, None

    class Deep(Everywhere):
        def __init__(self):
            super().__init__()
            self.chain, self.nested, self.loop = Node(), [], []
            node, inner = self.chain, self.nested
            for _ in range(5000):
                node.next = Node()
                node = node.next
                inner.append([])
                inner = inner[0]
            self.loop.append(self.loop)

    places = Deep().get_extra_state()["values"]["made_with"]
    assert [f"chain{'.next' * number}.count" in places for number in (4, 5, 6)] == [True, True, False]


def nested(levels, kind):
    value = 0
    for _ in range(levels):
        value = [value] if kind is list else {"a": value}
    return value


@pytest.mark.parametrize("kind", [list, dict])
def test_containers_of_seven_levels_are_one_value(kind):
    policy = Everywhere()
    policy.seven, policy.eight = nested(7, kind), nested(8, kind)
    places = policy.get_extra_state()["values"]["changed"]
    assert "seven" in places
    assert "eight" not in places
    assert f"eight.{0 if kind is list else 'a'}" in places


def test_keys_that_are_objects_are_not_written():
    policy = Everywhere()
    policy.tables = {
        "a": {Compiled(): [1]},
        "b": {(Compiled(),): [1]},
        "c": {frozenset([1]): [1]},
        "d": {(1, "x"): [1]},
    }
    places = policy.get_extra_state()["values"]["changed"]
    assert "tables" not in places
    assert [f"tables.{name}" in places for name in "abcd"] == [False, False, False, True]


def changed(policy, **attributes):
    """Assign attributes, as learning does."""
    for name, value in attributes.items():
        setattr(policy, name, value)
    return policy


BEFORE = {
    "none": None,
    "number": np.float32(1),
    "array": np.zeros(2),
    "tensor": torch.zeros(2),
    "list": [1],
    "set": {1},
    "large": np.zeros(5000),
}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("none", torch.ones(2)),
        ("none", np.ones(2)),
        ("none", {"a": 1}),
        ("none", {1}),
        ("none", [1, 2]),
        ("none", deque([1, 2])),
        ("number", np.float32(2)),
        ("number", None),
        ("array", np.ones(3)),
        ("array", np.ones(2, np.int64)),
        ("tensor", torch.tensor([0.0, 1.0])),
        ("tensor", torch.ones(3)),
        ("list", (1,)),
        ("list", [1, 2, 3]),
        ("list", []),
        ("set", frozenset({1})),
        ("large", np.where(np.arange(5000) == 2500, 1.0, 0.0)),
    ],
)
def test_an_attribute_of_any_kind_becomes_what_it_was(name, value):
    class Keeps(Everywhere):
        def __init__(self):
            super().__init__()
            self.kept = copy.deepcopy(BEFORE[name])

    other = Keeps()
    other.load_state_dict(changed(Keeps(), kept=value).state_dict())
    assert type(other.kept) is type(value)
    assert np.asarray(other.kept).tolist() == np.asarray(value).tolist()
    assert getattr(other.kept, "dtype", None) == getattr(value, "dtype", None)


def test_a_tensor_of_another_type_has_changed():
    class Keeps(Everywhere):
        def __init__(self):
            super().__init__()
            self.kept = torch.zeros(2)

    state = changed(Keeps(), kept=torch.zeros(2, dtype=torch.int32)).get_extra_state()
    assert state["values"]["changed"]["kept"].dtype == torch.int32


def test_parameters_of_objects_are_restored_in_place():
    class Keeps(Everywhere):
        def __init__(self):
            super().__init__()
            self.schedule.weight = nn.Parameter(torch.zeros(2))
            self.tensors, self.nothing = [torch.zeros(1)], {}

    policy, other = Keeps(), Keeps()
    with torch.no_grad():
        policy.schedule.weight += 1
    policy.tensors.append(torch.ones(1))
    other.nothing["loss"] = 1.0
    weight, nothing, tensor = other.schedule.weight, other.nothing, other.tensors[0]
    depth = other.schedule.inner["depth"][1]
    other.load_state_dict(trained(policy, 1).state_dict())
    assert other.schedule.weight is weight
    assert (weight.tolist(), other.tensors) == ([1.0, 1.0], [torch.zeros(1), torch.ones(1)])
    assert (nothing, other.nothing is nothing, other.tensors[0] is tensor) == ({}, True, True)
    assert (other.schedule.inner["depth"][1] is depth, depth.tolist()) == (True, [4.0, 4.0])


def test_attributes_and_entries_that_were_added_are_restored():
    policy, other = trained(Everywhere(), 1), Everywhere()
    policy.schedule.rate, policy.counters["episodes"], policy.noises["late"] = 0.5, 7, {"a": 1}
    other.load_state_dict(policy.state_dict())
    assert (other.best, other.schedule.rate, other.counters["episodes"]) == (policy.best, 0.5, 7)
    assert other.noises["late"] == {"a": 1}


def test_attributes_of_objects_in_containers_are_restored_where_the_objects_are():
    class Keeps(Everywhere):
        def __init__(self, things):
            super().__init__()
            self.things = things

    for kind in (list, tuple, deque):
        policy, other = Keeps(kind([Schedule(1), Schedule(2)])), Keeps(kind([Schedule(3)]))
        policy.things[0].rate, policy.things[1].rate = 0.5, 0.25
        other.load_state_dict(policy.state_dict())
        assert (len(other.things), other.things[0].rate) == (1, 0.5)
    policy, other = Keeps({"a": Schedule(1)}), Keeps({"a": Schedule(2)})
    policy.things["a"].rate = 0.5
    policy.added = Schedule(4)
    other.load_state_dict(policy.state_dict())
    assert other.things["a"].rate == 0.5
    assert not hasattr(other, "added")
    for things in ([Schedule(1)], None):
        Keeps(things).load_state_dict(policy.state_dict())
    policy.things = [Schedule(1), 7]
    other.things = [Schedule(2)]
    other.load_state_dict(policy.state_dict())
    assert len(other.things) == 1


class Drawing:
    """An object with a random stream under the name that ``SeededMixin`` uses."""

    def __init__(self, seed):
        self._rng = np.random.default_rng(seed)


class Seeded(SeededMixin):
    """An object whose stream is made at its first use."""


def test_random_streams_of_objects_go_on():
    class Keeps(Everywhere):
        def __init__(self, seed):
            super().__init__(seed)
            self.drawing, self.seeded = Drawing(seed), Seeded()

    policy, other = Keeps(0), Keeps(1)
    policy.drawing._rng.random(3)
    policy.seeded.rng.random()
    other.load_state_dict(policy.state_dict())
    assert other.drawing._rng.random() == policy.drawing._rng.random()


def test_other_structures_are_refused_before_anything_changes():
    class Fewer(Everywhere):
        def __init__(self):
            super().__init__(1)
            self.critic_optims.pop()

    other = Fewer()
    before = everything(trained(other, 1))
    state = trained(Everywhere(), 2).get_extra_state()
    with pytest.raises(ValueError, match=r"got the state of optimizers .*critic_optims\.1.*this policy has"):
        other.set_extra_state(state)
    assert everything(other) == before


class TestMoving:
    def test_a_policy_can_go_on_in_double_precision(self):
        policy = trained(Everywhere(), 1)
        policy.double()
        for optim in policy.critic_optims:
            for parameter, state in optim.state.items():
                assert parameter.dtype == state["exp_avg"].dtype == torch.float64
                assert state["step"] == 1

    @pytest.mark.parametrize("fused", [False, True])
    def test_a_dqn_learns_on_after_it(self, fused):
        net = Net(4, 2, [8])
        policy = DQNPolicy(
            model=net,
            optim=torch.optim.Adam(net.parameters(), fused=fused),
            action_space=Discrete(2),
            estimation_step=2,
        )
        buffer = ReplayBuffer(20)
        for step in range(20):
            obs = np.full(4, step, np.float64)
            buffer.add(Batch(obs=obs, act=step % 2, rew=1.0, terminated=False, truncated=False, obs_next=obs, info={}))
        policy.update(8, buffer)
        before = next(iter(net.parameters())).detach().clone()
        policy.double()
        batch, indices = buffer.sample(8)
        batch = policy.process_fn(batch, buffer, indices)
        assert batch.returns.dtype == torch.float64
        policy.learn(batch)
        assert batch.td_error.dtype == torch.float64
        assert not torch.equal(next(iter(net.parameters())), before.double())
