"""Policies with continuous actions that act in Rust against the same policies that act by torch."""

import copy
import gc
import pickle
import weakref

import gymnasium as gym
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.distributions import Independent, Normal

from policy.given import overriding
from rlfast.data import Batch
from rlfast.functional import DiagonalNormal
from rlfast.policy import DDPGPolicy, ImitationPolicy, IQLPolicy, PPOPolicy, SACPolicy, TD3Policy
from rlfast.policy.native.lowering import Lowered
from rlfast.utils.net.common import Net
from rlfast.utils.net.continuous import Actor, ActorProb, Critic
from rlfast.utils.optim import adam
from rlfast.utils.runtime.native import NotNativeError

BOX = gym.spaces.Box(-2, 2, (2, 3), np.float32)
STEP = adam(1e-3)


def features() -> Net:
    return Net(4, hidden_sizes=[16])


def value() -> Critic:
    return Critic(Net(4, 6, hidden_sizes=[8], concat=True))


def sac(**options) -> SACPolicy:
    actor = ActorProb(features(), 6, conditioned_sigma=True, unbounded=True)
    return SACPolicy(actor=actor, critic=value(), actor_optim=STEP, critic_optim=STEP, action_space=BOX, **options)


def iql(**options) -> IQLPolicy:
    actor, critics = ActorProb(features(), 6, max_action=2.0), {"critic": value(), "value": Critic(features())}
    optims = dict.fromkeys(("actor_optim", "critic_optim", "value_optim"), STEP)
    return IQLPolicy(actor=actor, **critics, **optims, action_space=BOX, **options)


def ppo(dist_fn=DiagonalNormal, **options) -> PPOPolicy:
    actor = ActorProb(features(), 6, max_action=2.0)
    nn.init.normal_(actor.sigma_param)
    made = {"actor": actor, "critic": Critic(features()), "optim": STEP, "dist_fn": dist_fn}
    return PPOPolicy(**made, action_space=gym.spaces.Box(-2, 2, (6,)), **options)


def ddpg(kind=DDPGPolicy, **options) -> DDPGPolicy:
    nets = {"actor": Actor(features(), 6, [8], max_action=0.5), "critic": value()}
    unscaled = {"action_scaling": False, "action_bound_method": None}
    return kind(**nets, actor_optim=STEP, critic_optim=STEP, action_space=BOX, **unscaled, **options)


def imitation() -> ImitationPolicy:
    return ImitationPolicy(actor=Actor(features(), 6), optim=STEP, action_space=BOX)


def independent(*parameters) -> Independent:
    return Independent(Normal(*parameters), 1)


def from_a_tuple(parameters: tuple[torch.Tensor, torch.Tensor]) -> Independent:
    return independent(*parameters)


def wide(mean: torch.Tensor, deviation: torch.Tensor) -> DiagonalNormal:
    return DiagonalNormal(mean, 3 * deviation)


RANDOM = {
    "SAC": sac,
    "IQL": iql,
    "PPO": ppo,
    "PPO, torch": lambda **options: ppo(independent, **options),
    "PPO, a tuple": lambda **options: ppo(from_a_tuple, **options),
    "PPO, another deviation": lambda **options: ppo(wide, **options),
}
CERTAIN = {"DDPG": ddpg, "TD3": lambda: ddpg(TD3Policy), "imitation": imitation}


def observations(rows: int) -> np.ndarray:
    return np.random.default_rng(rows).normal(size=(rows, 4)).astype(np.float32)


def by_torch(policy, obs) -> np.ndarray:
    with torch.no_grad():
        return np.asarray(policy(Batch(obs=obs, info={})).act)


def in_rust(policy, obs) -> np.ndarray:
    return policy.native_chooser((4,)).choose(obs)


def same(one, other) -> None:
    assert (one.dtype, one.shape) == (other.dtype, other.shape)
    np.testing.assert_allclose(one, other, rtol=2e-6, atol=5e-7)


@pytest.mark.parametrize("seeded", [False, True])
@pytest.mark.parametrize("make", RANDOM.values(), ids=RANDOM)
def test_drawn_actions_and_the_stream_are_those_of_the_policy(make, seeded):
    policy, taken = make(), []
    for act in (by_torch, in_rust):
        torch.manual_seed(5)
        if seeded:
            policy.seed(7)
        taken.append([*(act(policy, observations(rows)) for rows in (1, 3, 40)), torch.rand(1).numpy()])
    for one, other in zip(*taken, strict=True):
        same(one, other)
    assert taken[0][2].std(0).min() > 0.01


def test_numbers_that_were_drawn_ahead_for_other_rows_are_dropped():
    policy = ppo()
    chooser = policy.native_chooser((4,))
    chooser.draw_ahead(2, 4)  # by a collect that raised
    stream = torch.get_rng_state()
    chosen = in_rust(policy, observations(1))
    torch.set_rng_state(stream)
    same(chosen, by_torch(policy, observations(1)))
    assert chooser.draw_ahead(1, 2).shape == (1, 2, 6)


@pytest.mark.parametrize("make", RANDOM.values(), ids=RANDOM)
def test_the_mode_is_taken_in_evaluation_mode(make):
    policy, obs = make(deterministic_eval=True), observations(20)
    assert policy.native_chooser((4,)).is_random
    policy.eval()
    before = torch.get_rng_state()
    same(in_rust(policy, obs), by_torch(policy, obs))
    assert torch.equal(before, torch.get_rng_state())
    policy.deterministic_eval = False
    assert policy.native_chooser((4,)).is_random


@pytest.mark.parametrize("make", CERTAIN.values(), ids=CERTAIN)
def test_actions_of_deterministic_actors(make):
    policy, obs = make(), observations(20)
    before = torch.get_rng_state()
    same(in_rust(policy, obs), by_torch(policy, obs))
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("make", [*CERTAIN.values(), *RANDOM.values()], ids=[*CERTAIN, *RANDOM])
def test_one_action_is_mapped_into_the_space(make, monkeypatch):
    policy = make()
    obs = observations(1)[0]
    torch.manual_seed(1)
    wanted = policy.map_action(by_torch(policy, obs[None]))[0]
    monkeypatch.setattr(policy, "_computed_action", None)  # by torch
    torch.manual_seed(1)
    same(policy.compute_action(obs), wanted)
    assert policy.native_chooser((4,)).choose_one(obs).shape == wanted.shape


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    hidden=st.lists(st.integers(1, 70), max_size=2),
    heads=st.lists(st.integers(1, 30), max_size=1),
    size=st.integers(1, 20),
    conditioned=st.booleans(),
    unbounded=st.booleans(),
    clip=st.sampled_from([None, 0.5]),
    rows=st.sampled_from([0, 1, 8, 9, 33]),
    dtype=st.sampled_from(["f4", "f8"]),
)
def test_means_and_deviations_are_those_of_torch(seed, hidden, heads, size, conditioned, unbounded, clip, rows, dtype):
    torch.manual_seed(seed)
    bound = 1.0 if unbounded else 2.5
    options = {"conditioned_sigma": conditioned, "unbounded": unbounded, "max_action": bound, "clip_mean": clip}
    actor = ActorProb(Net(4, hidden_sizes=hidden), size, hidden_sizes=heads, **options)
    if not conditioned:
        nn.init.normal_(actor.sigma_param)
    lowered = Lowered(actor, (4,))
    network, slots = lowered.network(lowered.outputs)
    obs = (2 * np.random.default_rng(seed).normal(size=(rows, 4))).astype(dtype)
    with torch.no_grad():
        wanted = actor(obs)[0]
    for one, other in zip(network.forward(obs, slots), wanted, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=5e-6, atol=1e-6)


CHANGES = {
    "hook": lambda policy: policy.actor.sigma.register_forward_hook(lambda *_: None),
    "hook of the head": lambda policy: policy.actor.register_forward_hook(lambda *_: None),
    "double": lambda policy: policy.double(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_changed_policy_acts_by_torch(change):
    policy = sac()
    policy.native_chooser((4,))
    change(policy)
    with pytest.raises(NotNativeError):
        policy.native_chooser((4,))


@pytest.mark.parametrize("name", ["forward", "draw_normal", "__call__"])
def test_a_subclass_that_overrides_a_method_acts_by_torch(name):
    policy = sac()
    with pytest.raises(NotNativeError, match=r"^Own does not act in Rust: it chooses actions by a method of its own$"):
        overriding(policy, **{name: getattr(type(policy), name)}).native_chooser((4,))


def test_a_method_that_makes_the_distribution_is_called():
    class Narrow(PPOPolicy):
        def _dist(self, logits, mask=None):
            return super()._dist((logits[0], logits[1] / 100), mask)

    with pytest.raises(NotNativeError, match="a method of its own"):
        Narrow(
            actor=ActorProb(features(), 6), critic=Critic(features()), optim=STEP, dist_fn=DiagonalNormal,
            action_space=gym.spaces.Box(-2, 2, (6,)),
        ).native_chooser((4,))  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        lambda policy: setattr(policy, "dist_fn", wide),
        lambda policy: setattr(policy.actor, "sigma_param", nn.Parameter(torch.ones(6, 1))),
        lambda policy: nn.init.ones_(policy.actor.sigma_param),
        lambda policy: setattr(policy, "actor", ActorProb(features(), 6)),
        lambda policy: policy.seed(11),
    ],
    ids=["dist_fn", "parameter", "numbers", "actor", "seed"],
)
def test_other_parts_are_used_from_then_on(change):
    policy, obs, taken = ppo(), observations(20), []
    torch.manual_seed(3)
    before = in_rust(policy, obs)
    change(policy)
    for act in (by_torch, in_rust):
        torch.manual_seed(3)
        if policy._torch_rng is not None:
            policy.seed(11)
        taken.append(act(policy, obs))
    same(*taken)
    assert abs(taken[0] - before).max() > 1e-3


def test_observations_of_other_kinds_are_for_torch():
    policy = sac()
    before = torch.get_rng_state()
    for obs in (Batch(a=observations(2)), observations(2)[:, :3], observations(2).astype("f2"), torch.zeros(2, 4)):
        assert in_rust(policy, obs) is None
    assert torch.equal(before, torch.get_rng_state())
    assert policy.compute_action(observations(1)[0].tolist()).shape == BOX.shape
    assert policy.compute_action(torch.zeros(4)).shape == BOX.shape
    assert policy.compute_action(torch.zeros(4, requires_grad=True)).shape == BOX.shape


@pytest.mark.parametrize("make", [*CERTAIN.values(), *RANDOM.values()], ids=[*CERTAIN, *RANDOM])
def test_a_policy_that_acts_in_rust_is_saved_copied_and_freed_as_before(make):
    policy, obs = make(), observations(3)
    before = [*vars(policy)]
    in_rust(policy, obs)
    assert [*vars(policy)] == before
    copies = [copy.deepcopy(policy)]
    if not isinstance(policy, PPOPolicy) or policy.dist_fn is not None:
        copies.append(pickle.loads(pickle.dumps(policy)))
    for other in copies:
        nn.init.normal_(next(other.actor.parameters()))
        torch.manual_seed(0)
        wanted = by_torch(other, obs)
        torch.manual_seed(0)
        same(in_rust(other, obs), wanted)
    gone = weakref.ref(policy)
    del policy
    gc.collect()
    assert gone() is None
