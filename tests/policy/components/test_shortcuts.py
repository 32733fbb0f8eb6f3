"""Classes and mixins that override a method are called instead of the shortcut that stands in for it."""

from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete

from rlfast import make_vec
from rlfast.data import Batch, Collector, VectorReplayBuffer
from rlfast.policy import DQNPolicy
from rlfast.policy.components.shortcuts import Shortcut, drop_overridden, instead_of_forward, overrides
from rlfast.utils.net.common import Net


class Host:
    shortcuts = {"quick": Shortcut(("call", "slow"), "slowly"), "count": Shortcut(("slow",), "counted")}
    count = 1

    def __init_subclass__(cls):
        drop_overridden(cls)

    def slow(self):
        return "slow"

    def quick(self):
        return "quick"

    def slowly(self):
        return self.slow()

    @property
    def counted(self):
        return len(self.slow())


class Plain(Host):
    def other(self):
        pass


class Own(Host):
    def slow(self):
        return "own"


class Below(Own):
    """Inherits the override."""


class Mixin:
    def slow(self):
        return "mixed"


class Mixed(Mixin, Host):
    """Inherits the override from a mixin."""


class After(Host, Mixin):
    """The mixin's method is hidden."""


class Both(Host):
    """Defines the shortcut with the method that it stands in for."""

    def slow(self):
        return "both"

    def quick(self):
        return "quick as well"


class Again(Both):
    """Overrides the method below the shortcut."""

    def slow(self):
        return "again"


class Caller(Host):
    def call(self):
        """A method that the host does not have."""


@pytest.mark.parametrize(
    ("kind", "quick", "count"),
    [
        (Host, "quick", 1),
        (Plain, "quick", 1),
        (Own, "own", 3),
        (Below, "own", 3),
        (Mixed, "mixed", 5),
        (After, "quick", 1),
        (Both, "quick as well", 4),
        (Again, "again", 5),
        (Caller, "slow", 1),
    ],
)
def test_an_override_is_called(kind, quick, count):
    assert (kind().quick(), kind().count) == (quick, count)


def test_overrides_compares_places_in_the_order_of_resolution():
    assert not overrides(Both, ("slow",), "quick")
    assert not overrides(Own, ("missing",), "quick")
    assert not overrides(Own, ("slow",), "missing")


class Learner:
    def __init_subclass__(cls):
        drop_overridden(cls)

    def __call__(self, batch, state=None, **options):
        return self.forward(batch, state, **options)

    def forward(self, batch, state=None, **options):
        return SimpleNamespace(value=1.0, given=(batch, state, options))

    @instead_of_forward(lambda result: (result.value, result.given))
    def value(self, obs, noise, state=None, batch=None, model="model"):
        return "quick"


class Called(Learner):
    def __call__(self, batch, state=None, **options):
        return super().__call__(batch, state, **options)


class Forwarded(Learner):
    def forward(self, batch, state=None, **options):
        return super().forward(batch, state, **options)


class Defined(Forwarded):
    value = Learner.value
    forward = Forwarded.forward


class Sampled(NamedTuple):
    obs: object
    state: object
    batch: object


def test_what_stands_in_for_forward_calls_an_override():
    assert [kind().value([0], "noise") for kind in (Learner, Defined)] == ["quick"] * 2
    for kind in (Called, Forwarded):
        value, (batch, state, options) = kind().value([0, 1], "noise", "before", model="model_old")
        assert (value, batch.obs.tolist(), state, options) == (1.0, [0, 1], "before", {"model": "model_old"})
        assert len(batch.info) == 2
        given = Batch(obs=[3])
        for call in ((given.obs, "noise", "before", given), (Sampled(given.obs, "before", given), "noise")):
            assert kind().value(*call)[1] == (given, "before", {})  # defaults are not passed on


def always_one(policy):
    """Methods that may be assigned to a policy, each of which makes all actions 1."""
    forward = policy.forward
    ones = np.ones_like
    return {
        "compute_q_value": lambda logits, mask: torch.tensor([0.0, 1.0]).expand(len(logits), 2),
        "forward": lambda batch, state=None: Batch(forward(batch, state), act=np.ones(len(batch), np.int64)),
        "exploration_noise": lambda act, batch: ones(act),
        "map_action": lambda act: ones(act),
    }


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("name", ["compute_q_value", "forward", "exploration_noise", "map_action"])
def test_a_method_that_is_assigned_to_a_policy_is_called(name, late):
    net = Net(4, 2, hidden_sizes=[8])
    policy = DQNPolicy(model=net, optim=torch.optim.SGD(net.parameters(), lr=0.1), action_space=Discrete(2))
    with Collector(policy, make_vec("CartPole-v1", 4), VectorReplayBuffer(400, 4), exploration_noise=True) as collector:
        if late:
            collector.collect(n_step=8)
        setattr(policy, name, always_one(policy)[name])
        lens = collector.collect(n_episode=12).lens
        assert lens.max() < 40  # an episode that is running when the method is assigned may be longer than 11
        assert np.median(lens) < 12
        delattr(policy, name)
        net.load_state_dict({key: value * 0 for key, value in net.state_dict().items()})  # action 0
        collector.collect(n_step=80)
        assert collector.buffer[-1].act == 0
    assert type(policy).__name__ == "DQNPolicy"
    assert isinstance(policy, DQNPolicy)


def test_a_policy_with_an_assigned_method_keeps_its_name():
    class Own(DQNPolicy):
        pass

    net = Net(4, 2, hidden_sizes=[8])
    policy = Own(model=net, optim=torch.optim.SGD(net.parameters(), lr=0.1), action_space=Discrete(2))
    policy.forward = policy.map_action = lambda *_, **__: None
    names = ("__name__", "__qualname__", "__module__", "__doc__")
    assert [getattr(type(policy), name) for name in names] == [getattr(Own, name) for name in names]
