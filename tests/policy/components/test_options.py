"""The signature of a class whose constructor passes options up, and options that an algorithm refuses."""

import inspect
from typing import TypedDict, Unpack

import pytest
from gymnasium.spaces import Discrete

from rlfast.functional import Categorical
from rlfast.policy import NPGPolicy, PQNPolicy, SACPolicy
from rlfast.policy.components.options import full_signature
from rlfast.utils.net.common import Net
from rlfast.utils.net.discrete import Actor, Critic


class Base:
    def __init__(self, first, *, gamma=0.99, tau=1.0):
        pass


class Middle(Base):
    """Has no constructor."""


class Passing(Middle):
    def __init__(self, *, tau=0.5, **options):
        pass


class Named(TypedDict, total=False):
    tau: float


class Refusing(Base):
    def __init__(self, *, other=1, **options: Unpack[Named]):
        pass


class BelowRefusing(Refusing):
    def __init__(self, *, more=2, **options):
        pass


class Wider(Named, total=False):
    gamma: float


class BelowWider(Refusing):
    def __init__(self, **options: Unpack[Wider]):
        pass


class Ending(Passing):
    def __init__(self, *, other):
        pass


@pytest.mark.parametrize(
    ("kind", "signature"),
    [
        (Base, "(first, *, gamma=0.99, tau=1.0)"),
        (Middle, "(first, *, gamma=0.99, tau=1.0)"),
        (Passing, "(first, *, tau=0.5, gamma=0.99)"),
        (Refusing, "(*, other=1, tau=1.0)"),
        (BelowRefusing, "(*, more=2, other=1, tau=1.0)"),
        (BelowWider, "(*, tau=1.0)"),
        (Ending, "(*, other)"),
    ],
)
def test_options_are_those_of_base_classes(kind, signature):
    found, refused = full_signature(kind)
    assert str(found) == signature
    hidden = {"first", "gamma"} if issubclass(kind, Refusing) else set()
    assert refused == hidden | ({"other"} if kind is BelowWider else set())


def test_signatures_of_algorithms_show_all_options():
    found = inspect.signature(SACPolicy).parameters
    assert {*found} >= {"actor", "critic", "critic2", "alpha", "tau", "gamma", "compile", "lr_scheduler"}
    assert (found["tau"].default, found["actor"].default) == (0.005, inspect.Parameter.empty)
    assert not any(one.kind is one.VAR_KEYWORD for one in found.values())


def npg(**options):
    nets = {"actor": Actor(Net(2, hidden_sizes=[4]), 2), "critic": Critic(Net(2, hidden_sizes=[4]))}
    return NPGPolicy(**nets, optim=None, dist_fn=Categorical, action_space=Discrete(2), **options)


def pqn(**options):
    return PQNPolicy(model=Net(2, 2, [4]), optim=None, action_space=Discrete(2), **options)


@pytest.mark.parametrize(
    ("make", "name", "value"),
    [
        (npg, "compile", True),
        (npg, "no_option", 1),
        (pqn, "target_update_freq", 3),
        (pqn, "estimation_step", 2),
        (pqn, "is_double", False),
        (pqn, "action_scaling", True),
    ],
)
def test_other_options_are_refused(make, name, value):
    with pytest.raises(TypeError, match=name):
        make(**{name: value})
    assert name not in inspect.signature(type(make())).parameters
