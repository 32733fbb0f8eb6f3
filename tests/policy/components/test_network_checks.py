"""Constructors of all policies refuse invalid arguments."""

import gymnasium as gym
import numpy as np
import pytest
from torch.distributions import Categorical

from rlfast.data import Batch, ReplayBuffer
from rlfast.policy import (
    C51Policy,
    DDPGPolicy,
    DQNPolicy,
    NPGPolicy,
    PPOPolicy,
    PQNPolicy,
    QRDQNPolicy,
    R2D2Policy,
    SACPolicy,
    TD3Policy,
    TRPOPolicy,
)
from rlfast.utils.net.common import Net
from rlfast.utils.net.continuous import Actor as Deterministic
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
    DQNPolicy: ["model", "optim", "lr_scheduler", "action_space"],
    SACPolicy: ["actor", "actor_optim", "critic", "critic_optim", "exploration_noise", "lr_scheduler"],
    PPOPolicy: ["actor", "critic", "optim", "dist_fn", "lr_scheduler", "action_space"],
}


def cases(arguments, values):
    return [(kind, name, value) for kind, names in arguments.items() for name in names for value in values]


@pytest.mark.parametrize(
    ("kind", "name", "value"), cases(NUMBERS, [True, "3", []]) + cases(INTEGERS, [2.5, NAN, "3", True, None])
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
    with pytest.raises((TypeError, ValueError), match=rf"({name}|an optimizer) .*got"):
        kind(**given)


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        (DQNPolicy, "estimation_step", 3.0),
        (DQNPolicy, "target_update_freq", 1e3),
        (SACPolicy, "estimation_step", np.float32(2)),
        (PPOPolicy, "max_batchsize", np.int64(64)),
        (PPOPolicy, "max_grad_norm", 0),
        (PPOPolicy, "dual_clip", 0),
        (PPOPolicy, "eps_clip", 0),
    ],
)
def test_odd_numbers_that_mean_something(kind, name, value):
    policy = kind(**MADE[kind]() | {name: value})
    own = {"estimation_step": "n_step" if kind is DQNPolicy else name, "target_update_freq": "freq"}.get(name, name)
    assert getattr(policy, own) == (None if name == "dual_clip" else value)


@pytest.mark.parametrize("kind", MADE)
def test_a_policy_without_optimizers_acts_and_does_not_learn(kind):
    given = MADE[kind]()
    policy = kind(**{name: None if name.endswith("optim") else value for name, value in given.items()})
    size = 3 if kind is SACPolicy else 4
    assert len(policy(Batch(obs=np.zeros((5, size), np.float32), info={})).act) == 5
    buffer = ReplayBuffer(10)
    for _ in range(10):
        act = np.zeros(given["action_space"].shape, given["action_space"].dtype)
        obs = np.zeros(size, np.float32)
        buffer.add(Batch(obs=obs, act=act, rew=1.0, terminated=False, truncated=False, obs_next=obs, info={}))
    learning = {"batch_size": None, "repeat": 1} if kind is PPOPolicy else {}
    with pytest.raises(ValueError, match="made with optim=None can act, but not learn"):
        policy.update(0, buffer, **learning)


@pytest.mark.parametrize(
    ("kind", "given", "match"),
    [
        (PPOPolicy, {"action_space": gym.spaces.Discrete(3)}, r"the actor gives 2 numbers, but Discrete\(3\) needs 3"),
        (PPOPolicy, {"action_space": gym.spaces.MultiDiscrete([2, 2])}, "the actor gives 2 numbers, but .* needs 4"),
        (PPOPolicy, {"action_space": gym.spaces.Box(-1, 1, (3,))}, "the actor gives 2 numbers, but .* needs 3"),
        (SACPolicy, {"action_space": gym.spaces.Box(-1, 1, (2,))}, "the actor gives 1 numbers, but .* needs 2"),
    ],
)
def test_another_action_space_is_taken_with_a_warning(kind, given, match):
    with pytest.warns(UserWarning, match=match) as warned:
        assert kind(**MADE[kind]() | given).action_space is given["action_space"]
    assert {warning.filename for warning in warned} == {__file__}


@pytest.mark.parametrize("kind", [DDPGPolicy, TD3Policy, NPGPolicy, TRPOPolicy])
def test_a_warning_names_the_line_of_the_user_however_long_the_line_of_classes(kind):
    if issubclass(kind, NPGPolicy):
        given = ppo() | {"action_space": gym.spaces.Discrete(3)}
    else:
        given = sac() | {
            "actor": Deterministic(Net(3, hidden_sizes=[8]), 1),
            "action_space": gym.spaces.Box(-1, 1, (2,)),
        }
    with pytest.warns(UserWarning, match=r"the actor gives . numbers") as warned:
        kind(**given)
    assert [warning.filename for warning in warned] == [__file__]


def test_actions_that_would_be_stretched_twice_are_told():
    given = sac() | {"actor": Deterministic(Net(3, hidden_sizes=[8]), 1, max_action=2.0)}
    with pytest.warns(UserWarning, match=r"stretched twice: by the actor, to max_action=2\.0") as warned:
        TD3Policy(**given)
    assert [warning.filename for warning in warned] == [__file__]


@pytest.mark.parametrize("kind", MADE)
def test_anything_with_a_step_is_a_schedule(kind):
    class Schedule:
        steps = 0

        def step(self):
            self.steps += 1

    schedule = Schedule()
    policy = kind(**MADE[kind]() | {"lr_scheduler": schedule})
    policy.process_fn, policy.learn = (lambda batch, *_: batch), lambda batch, **_: {}
    buffer = ReplayBuffer(1)
    buffer.add(Batch(obs=0.0, act=0, rew=1.0, terminated=False, truncated=False, obs_next=0.0, info={}))
    policy.update(1, buffer)
    assert schedule.steps == 1
    policy.load_state_dict(kind(**MADE[kind]() | {"lr_scheduler": Schedule()}).state_dict())


@pytest.mark.parametrize("kind", MADE)
def test_all_is_well_without_them(kind):
    assert kind(**MADE[kind]()).lr_scheduler is None


@pytest.mark.parametrize(
    "space", [gym.spaces.MultiDiscrete([2, 2]), gym.spaces.MultiBinary(2), gym.spaces.Box(-1, 1, (2,))]
)
@pytest.mark.parametrize("kind", [C51Policy, DQNPolicy, PQNPolicy, QRDQNPolicy, R2D2Policy])
def test_values_of_single_actions_need_a_discrete_space(kind, space):
    with pytest.raises(ValueError, match=r"chooses one of the actions 0, 1, 2.*single_action_space.*PPO"):
        kind(**dqn() | {"action_space": space})
