"""Whole collects of continuous actions in Rust, against vector steps that are taken one by one."""

import copy
from functools import partial

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box

import rlfast
from native_collecting import ENVS, LOW, MODES, collector, collects, deterministic, left_by, sac, same
from rlfast import _core
from rlfast.data import Collector
from rlfast.data.collect.python_steps import PythonSteps
from rlfast.env import NativeVectorEnv
from rlfast.exploration import GaussianNoise
from rlfast.functional.distributions import DiagonalNormal
from rlfast.policy import DDPGPolicy, PGPolicy, SACPolicy
from rlfast.utils.net.common import Net
from rlfast.utils.net.continuous import ActorProb

WIDTHS = {"Pendulum-v1": 3, "MountainCarContinuous-v0": 2}


def normal_dist(mean, deviation):
    return torch.distributions.Independent(torch.distributions.Normal(mean, deviation), 1)


def pg(width=3, dist_fn=DiagonalNormal, **options):
    torch.manual_seed(0)
    actor = ActorProb(Net(width, hidden_sizes=[16]), 1)
    policy = PGPolicy(actor=actor, optim=None, dist_fn=dist_fn, **{"action_space": Box(LOW, -LOW), **options})
    policy.seed(3)
    return policy


class OneByOne(Collector):
    def _native_steps(self, *_, **__):
        return None


def collector_of(policy, env="Pendulum-v1", autoreset=None, kind=Collector):
    return collector(policy, NativeVectorEnv(env, ENVS, autoreset_mode=autoreset), True, kind=kind, rows=600)


PLAYS = {
    "steps": collects({"n_step": 1600}, {"n_step": 8}),
    "exact": collects({"n_step": 402, "exact": True}, {"n_step": 3, "exact": True}),
    "evaluate": collects({"evaluate": 6}, {"n_step": 40}),
    "episodes": collects({"n_episode": 5}, {"n_step": 40}),
    "greedy": [lambda one: one.policy.eval() and one.evaluate(5), lambda one: one.collect(n_step=80)],
}
MAKERS = {
    "drawn": pg,
    "drawn, as they are": partial(pg, action_scaling=False, action_bound_method=None),
    "squashed": partial(sac, deterministic_eval=True),
    "deterministic": deterministic,
}


@pytest.mark.parametrize("plays", PLAYS.values(), ids=PLAYS)
@pytest.mark.parametrize("autoreset", MODES)
@pytest.mark.parametrize("env", WIDTHS)
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_whole_collects_equal_their_vector_steps(make, env, autoreset, plays):
    assert "collecting in Rust" in repr(collector_of(make(WIDTHS[env]), env, autoreset))
    made = (collector_of(make(WIDTHS[env]), env, autoreset, kind) for kind in (Collector, OneByOne))
    assert same(*(left_by(one, plays) for one in made))


@pytest.mark.parametrize("options", [{}, {"action_scaling": False}], ids=str)
def test_actions_at_bounds_are_kept_within_them(options):
    """Pendulum's rewards show a force that is beyond the bound by one rounding."""
    bounds = np.random.default_rng(0).uniform(-2, 2, (12, 2)).astype(np.float32)
    for low, high in [(-1.3812797, 0.82177013), (-0.0, 0.0), *np.sort(bounds)]:
        space = Box(np.float32([low]), np.float32([high]))
        made = (collector_of(pg(action_space=space, **options), kind=kind) for kind in (Collector, OneByOne))
        assert same(*(left_by(one, PLAYS["greedy"][1:]) for one in made))


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_python_takes_the_last_vector_step_alone(make, monkeypatch):
    one = collector_of(make())
    one.collect(n_step=ENVS)  # the columns are laid out
    calls, act = [], PythonSteps.act
    monkeypatch.setattr(PythonSteps, "act", lambda *given: calls.append(0) or act(*given))
    assert one.collect(n_step=100 * ENVS).n_collected_steps == 100 * ENVS
    assert len(calls) == 1
    assert len(np.unique(one.buffer[:].act)) > 90 * ENVS


def test_environments_receive_what_map_action_gives():
    """The force that Pendulum received is in its rewards."""
    one = collector_of(deterministic())
    one.collect(n_step=400)
    rows = one.buffer[:]
    angle = np.arctan2(rows.obs[:, 1].astype(float), rows.obs[:, 0].astype(float))
    force = one.policy.map_action(rows.act)[:, 0].astype(float)
    assert rows.rew == pytest.approx(-(angle**2 + 0.1 * rows.obs[:, 2] ** 2 + 0.001 * force**2), abs=1e-4)
    assert force.min() < force.max() < 2.0


def test_a_resumed_collect_equals_an_uninterrupted_one():
    first, second = collector_of(pg()), collector_of(pg())
    first.collect(n_step=200)
    second.buffer = copy.deepcopy(first.buffer)
    second.policy.load_state_dict(copy.deepcopy(first.policy.state_dict()))
    second.load_state_dict(first.state_dict())
    for one in (first, second):
        one.collect(n_step=1000)
    assert np.array_equal(first.buffer[:].act, second.buffer[:].act)
    assert np.array_equal(first.buffer[:].obs, second.buffer[:].obs)


def test_threads_change_nothing():
    results = []
    for threads in (1, 2):
        rlfast.set_num_threads(threads)
        results.append(left_by(collector_of(sac()), PLAYS["steps"]))
    assert same(*results)


class Mapping(SACPolicy):
    def map_action(self, act):
        return -super().map_action(act)


class Noisy(DDPGPolicy):
    def exploration_noise(self, act, batch):
        return act * 0


@pytest.mark.parametrize(
    ("make", "how"),
    [
        (lambda: pg(dist_fn=normal_dist), "dist_fn makes the distribution of actions"),
        (lambda: pg(action_bound_method="tanh"), "the policy maps actions by the hyperbolic tangent"),
        (lambda: sac(kind=Mapping), "the policy maps actions"),
        (lambda: deterministic(kind=Noisy), "Noisy has exploration noise of its own"),
        (lambda: deterministic(exploration_noise=GaussianNoise(sigma=0.1)), "noise is added to actions in Python"),
    ],
)
def test_others_take_vector_steps_one_by_one(make, how):
    one = collector_of(make())
    assert f"acting in Rust, one vector step at a time: {how}" in repr(one)
    assert one.collect(n_step=40).n_collected_steps == 40


def test_actions_that_cannot_be_stretched_raise_as_in_python():
    texts = []
    for kind in (Collector, OneByOne):
        one = collector_of(pg(action_bound_method=None), kind=kind)  # draws reach beyond 1
        one.reset(gym_reset_kwargs={"seed": 1})
        with pytest.raises(ValueError, match=r"can only scale actions in \[-1, 1\]") as error:
            one.collect(n_step=400)
        texts.append(str(error.value))
    assert texts[0] == texts[1]


MEAN, STD, _ = pg().native_chooser((3,)).real_actions()
BOUNDS = LOW, LOW[[0, 0]]


@pytest.mark.parametrize(
    ("real", "options", "error", "match"),
    [
        ((MEAN, 99, False, True, False, None), {"draws": np.zeros(ENVS, np.float32)}, ValueError, "other lengths"),
        ((99, None, False, True, False, None), {}, _core.SchemaMismatch, "collect, these have"),
        ((MEAN, None, False, True, True, BOUNDS), {}, ValueError, "as many bounds, got 1 and 2"),
        ((MEAN, STD, False, True, False, None), {"draws": LOW}, ValueError, "1 numbers for step 0, of 4"),
        ((MEAN, STD, False, True, False, None), {}, ValueError, "0 numbers for step 0, of 4"),
        ((MEAN, None, False, True, False, None), {"explore": (0.5, 2, None)}, ValueError, "not for real actions"),
        ((-1, None, False, True, False, None), {}, OverflowError, "negative"),
        (None, {}, _core.SchemaMismatch, "collect, these have"),
    ],
)
def test_wrong_numbers_are_refused_before_a_step(real, options, error, match):
    one = collector_of(pg())
    one.collect(n_step=ENVS)
    envs, network = one._envs._backend.envs, one.policy.native_chooser((3,)).network
    obs, ready = one._episodes.obs, np.arange(ENVS)
    with pytest.raises(error, match=match):
        _core.collect(envs, one.buffer._core, network, obs, ready, ("steps", 2), real=real, **options)
    assert len(one.buffer) == ENVS
