"""What cannot be meant is refused where it is given, by each of the policies."""

import gymnasium as gym
import pytest
from torch.distributions import Categorical

from rlfast.policy import DQNPolicy, PPOPolicy, SACPolicy
from rlfast.utils.net.common import Net
from rlfast.utils.net.continuous import ActorProb, Critic
from rlfast.utils.net.discrete import Actor
from rlfast.utils.optim import adam

NAN = float("nan")


def dqn():
    return {"model": Net(4, 2, [8]), "optim": adam(1e-3), "action_space": gym.spaces.Discrete(2)}


def sac():
    return {
        "actor": ActorProb(Net(3, hidden_sizes=[8]), 1, unbounded=True, conditioned_sigma=True),
        "actor_optim": adam(1e-3),
        "critic": Critic(Net(3, 1, hidden_sizes=[8], concat=True)),
        "critic_optim": adam(1e-3),
        "action_space": gym.spaces.Box(-1.0, 1.0, (1,)),
    }


def ppo():
    net = Net(4, hidden_sizes=[8])
    return {
        "actor": Actor(net, 2, softmax_output=False),
        "critic": Critic(net),
        "optim": adam(1e-3),
        "dist_fn": lambda logits: Categorical(logits=logits),
        "action_space": gym.spaces.Discrete(2),
        "action_scaling": False,
    }


MADE = {DQNPolicy: dqn, SACPolicy: sac, PPOPolicy: ppo}
NUMBERS = {
    DQNPolicy: ["discount_factor"],
    SACPolicy: ["tau", "gamma", "alpha"],
    PPOPolicy: ["discount_factor", "gae_lambda", "eps_clip", "dual_clip", "vf_coef", "ent_coef", "max_grad_norm"],
}
INTEGERS = {
    DQNPolicy: ["estimation_step", "target_update_freq"],
    SACPolicy: ["estimation_step"],
    PPOPolicy: ["max_batchsize"],
}
PARTS = {
    DQNPolicy: ["model", "optim", "lr_scheduler", "observation_space", "action_space"],
    SACPolicy: ["actor", "actor_optim", "critic", "critic_optim", "exploration_noise", "lr_scheduler"],
    PPOPolicy: ["actor", "critic", "optim", "dist_fn", "lr_scheduler", "observation_space", "action_space"],
}


def cases(arguments, values):
    return [(kind, name, value) for kind, names in arguments.items() for name in names for value in values]


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    cases(NUMBERS, [True, "3", []]) + cases(INTEGERS, [2.5, NAN, "3", True, None]),
)
def test_numbers_of_another_kind(kind, name, value):
    with pytest.raises(TypeError, match=rf"{name} must be an? (number|integer)"):
        kind(**MADE[kind]() | {name: value})


@pytest.mark.parametrize(("kind", "name", "value"), cases(NUMBERS, [NAN, float("inf")]))
def test_numbers_that_are_not_finite(kind, name, value):
    with pytest.raises(ValueError, match=rf"{name} must be"):
        kind(**MADE[kind]() | {name: value})


@pytest.mark.parametrize(("kind", "name", "value"), cases(PARTS, [5, "x", []]))
def test_parts_of_another_kind(kind, name, value):
    given = MADE[kind]() | {name: value}
    with pytest.raises((TypeError, ValueError), match=rf"({name}|an optimizer|needs a) .*got|needs a Discrete"):
        kind(**given)


@pytest.mark.parametrize("kind", MADE)
def test_all_is_well_without_them(kind):
    assert kind(**MADE[kind]()).lr_scheduler is None
