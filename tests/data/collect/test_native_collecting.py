"""Collecting in Rust against collecting by torch."""

import copy

import gymnasium as gym
import numpy as np
import pytest
import torch

import rlfast
from native_collecting import (
    ENVS,
    MODES,
    SPACE,
    cart_poles,
    collector,
    collects,
    deterministic,
    discrete_sac,
    dqn,
    left_by,
    pg,
    sac,
    same,
    undecided,
)
from rlfast._core import collect
from rlfast.data import (
    Batch,
    CachedReplayBuffer,
    CollectStats,
    PrioritizedVectorReplayBuffer,
    ReplayBuffer,
    VectorReplayBuffer,
)
from rlfast.env import DummyVectorEnv, NativeVectorEnv, VectorEnvNormObs
from rlfast.policy import DQNPolicy, RandomPolicy, SACPolicy, TD3Policy
from rlfast.utils.net.common import Net
from scripted import ScriptedPolicy


def python() -> DummyVectorEnv:
    return DummyVectorEnv([lambda: gym.make("CartPole-v1")] * ENVS)


PLAYS = {
    "steps": collects({"n_step": 400}, {"n_step": 8}, {"n_step": 4}),
    "exact": collects({"n_step": 402, "exact": True}, {"n_step": 3, "exact": True}),
    "episodes": collects({"n_episode": 11}, {"n_episode": 2}),
    "evaluate": collects({"evaluate": 11}, {"evaluate": 3}, {"n_step": 40}),
    "seeded": collects({"n_episode": 6, "gym_reset_kwargs": {"seed": 4}}, {"n_step": 40}),
    "random": collects({"n_step": 400, "random": True}, {"n_step": 40}),
    "random, other limits": collects(
        {"n_episode": 7, "random": True},
        {"n_step": 402, "random": True, "exact": True},
        {"evaluate": 6, "random": True},
        {"n_step": 8, "random": True},
    ),
}
POLICIES = {"dqn": dqn, "pg": pg, "discrete-sac": discrete_sac, "undecided": undecided, "greedy": lambda: dqn(0.0)}


@pytest.mark.parametrize("plays", PLAYS.values(), ids=PLAYS)
@pytest.mark.parametrize("envs", [*MODES, "Python"])
@pytest.mark.parametrize("make", POLICIES.values(), ids=POLICIES)
def test_collects_equal_those_of_torch(make, envs, plays):
    made = python if envs == "Python" else lambda: cart_poles(envs)
    assert same(*(left_by(collector(make(), made(), mode), plays, streams=True) for mode in (True, False)))


@pytest.mark.parametrize("make", [dqn, pg, undecided])
def test_collects_equal_those_of_python_environments(make):
    plays = PLAYS["steps"] + PLAYS["evaluate"]
    found, wanted = (left_by(collector(make(), envs), plays) for envs in (cart_poles(), python()))
    assert same(found, wanted)


@pytest.mark.parametrize("mode", [True, False])
def test_only_environments_whose_episode_ended_need_a_reset(mode):
    envs = cart_poles()
    with collector(dqn(), envs, mode) as one:
        one.reset()
        one.collect(n_episode=3)  # of the first three
        for number in range(3):
            with pytest.raises(RuntimeError, match="call reset first, and after each episode"):
                envs.step(np.zeros(1, np.int64), [number])
        assert not envs.step(np.zeros(1, np.int64), [3])[2]


CONTINUOUS = {
    "sac": (sac, SACPolicy, "collecting in Rust"),
    "td3": (
        lambda: deterministic(kind=TD3Policy, low=-2.0, exploration_noise="default"),
        TD3Policy,
        "noise is added to actions in Python",
    ),
}


@pytest.mark.parametrize(("make", "kind", "how"), CONTINUOUS.values(), ids=CONTINUOUS)
def test_continuous_actions_equal_those_of_torch_but_for_rounding(make, kind, how, monkeypatch):
    def played(mode):
        one = collector(make(), NativeVectorEnv("Pendulum-v1", ENVS), mode)
        assert mode is False or how in repr(one)
        return left_by(one, collects({"n_step": 40}))

    wanted = played(False)
    monkeypatch.setattr(kind.forward, "__code__", (lambda *_, **__: 1 / 0).__code__)  # torch is not called
    for one, other in zip(played(True), wanted, strict=True):
        np.testing.assert_allclose(np.asarray(one, float), np.asarray(other, float), rtol=1e-4, atol=1e-4)


def test_only_undecided_policies_leave_choices_to_torch():
    obs = np.random.default_rng(0).normal(size=(100, 1, 4)).astype(np.float32)
    counts = [sum(make().native_chooser((4,)).choose(row) is None for row in obs) for make in (dqn, undecided)]
    assert counts[0] == 0
    assert 0 < counts[1] < 100


def test_threads_change_nothing():
    results = []
    for threads in (1, 2):
        rlfast.set_num_threads(threads)
        results.append(left_by(collector(dqn(), cart_poles()), PLAYS["steps"]))
    assert same(*results)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("make", [dqn, pg])
def test_a_resumed_collect_equals_an_uninterrupted_one(make, mode):
    first = collector(make(), cart_poles(mode))
    torch.manual_seed(2)
    first.collect(n_step=200)
    saved = first.state_dict(), copy.deepcopy(first.policy.state_dict()), torch.get_rng_state()
    buffer = copy.deepcopy(first.buffer)
    wanted = first.collect(n_step=200)
    second = collector(make(), cart_poles(mode), buffer=buffer)
    torch.set_rng_state(saved[2])
    second.policy.load_state_dict(saved[1])
    second.load_state_dict(saved[0])
    found = second.collect(n_step=200)
    assert same([found.returns, found.lens, buffer.obs, buffer.act],
                [wanted.returns, wanted.lens, first.buffer.obs, first.buffer.act])  # fmt: skip


def test_prioritized_rows_and_one_ring():
    buffers = [PrioritizedVectorReplayBuffer(ENVS * 50, ENVS, alpha=0.6, beta=0.4, seed=1) for _ in range(2)]
    for buffer, mode in zip(buffers, (True, False), strict=True):
        collector(dqn(), cart_poles(), mode, buffer).collect(n_step=100, gym_reset_kwargs={"seed": 1})
    assert np.array_equal(buffers[0].sample(20)[0].obs, buffers[1].sample(20)[0].obs)
    rings = [ReplayBuffer(60) for _ in range(2)]
    for ring, mode in zip(rings, (True, False), strict=True):
        collector(dqn(), cart_poles(envs=1), mode, ring).collect(n_step=100, gym_reset_kwargs={"seed": 1})
    assert np.array_equal(rings[0].obs, rings[1].obs)


@pytest.mark.parametrize("make", [dqn, pg])
@pytest.mark.parametrize("mode", MODES)
def test_without_overwriting_raises_before_a_row_is_lost(mode, make):
    one = collector(make(), cart_poles(mode), True, rows=20)
    one.collect(n_step=8)
    for limit in ({"n_step": ENVS * 30}, {"n_episode": ENVS * 30}):
        with one.without_overwriting(), pytest.raises(ValueError, match="has filled the 20 rows"):
            one.collect(**limit)
        assert one.collect_step == 8
    with one.without_overwriting():
        one.collect(n_step=ENVS * 17)  # some make more where others only reset


def test_steps_that_only_reset_take_no_row():
    one = collector(dqn(), cart_poles("NextStep"), True, rows=100)
    with one.without_overwriting():  # each environment has room for 100 transitions, and makes 92 to 100
        stats = one.collect(n_step=ENVS * 96)
    assert stats.n_collected_episodes > ENVS
    assert len(one.buffer) == stats.n_collected_steps
    assert ENVS * 96 <= stats.n_collected_steps < ENVS * 97


def test_numbers_drawn_for_a_collect_that_raised_are_dropped(monkeypatch):
    def interrupted(*args, **options):
        collect(*args, **options)
        raise KeyboardInterrupt

    rows = []
    for interrupt in (False, True):
        one = collector(pg(), cart_poles(), True)
        one.collect(n_step=8)
        if interrupt:
            with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
                patch.setattr("rlfast.data.collect.native_steps.collect", interrupted)
                one.collect(n_step=40)
        torch.manual_seed(5)
        one.collect(n_step=160, reset_before_collect=True, gym_reset_kwargs={"seed": 1})
        rows.append(one.buffer[one.buffer.sample_indices(0)].obs[-20:])
    assert np.array_equal(*rows)


def test_numbers_that_a_call_leaves_are_used_by_the_next(monkeypatch):
    def few(*args, limit, **options):
        return collect(*args, limit=(limit[0], min(limit[1], 3)), **options)

    wanted = left_by(collector(pg(), cart_poles(), False), PLAYS["steps"])
    monkeypatch.setattr("rlfast.data.collect.native_steps.collect", few)
    assert same(left_by(collector(pg(), cart_poles(), True), PLAYS["steps"]), wanted)


def test_weights_are_those_of_the_moment():
    found = []
    for mode in (True, False):
        one = collector(dqn(0.0), cart_poles(), mode)
        one.collect(n_step=40, gym_reset_kwargs={"seed": 1})
        with torch.no_grad():
            one.policy.model.model.model[-1].weight.neg_()
        one.collect(n_step=80)
        found.append(one.buffer.act.tolist())
    assert found[0] == found[1]


class Own(CollectStats):
    """Statistics of a user's class."""


class OwnBuffer(VectorReplayBuffer):
    def add(self, *args, **kwargs):
        return super().add(*args, **kwargs)


def patched() -> VectorReplayBuffer:
    buffer = VectorReplayBuffer(80, ENVS)
    buffer.add = buffer.add
    return buffer


def remembering():
    one = collector(dqn(), cart_poles())
    one._episodes.hidden = np.zeros(ENVS)
    return one


def changed(**methods):
    one = collector(dqn(), cart_poles())
    one.policy.__class__ = type("Own", (DQNPolicy,), methods)
    return one


STACKING = VectorReplayBuffer(80, ENVS, stack_num=2, save_only_last_obs=True)


@pytest.mark.parametrize(
    ("make", "how"),
    [
        *[(lambda mode=mode: collector(dqn(), cart_poles(mode)), "collecting in Rust") for mode in MODES],
        (lambda: collector(dqn(), python()), "one vector step at a time: the environments are not native"),
        (lambda: collector(dqn(), VectorEnvNormObs(cart_poles())), "the environments are not native ones"),
        (lambda: collector(dqn(), cart_poles(), False), "by torch: native_acting is False"),
        (lambda: collector(dqn(), cart_poles(), collect_stats_class=Own), "by torch: hooks and custom statistics"),
        (lambda: collector(dqn(), cart_poles(), preprocess_fn=lambda **_: Batch()), "a preprocess_fn"),
        (lambda: collector(dqn(), cart_poles(), on_episode_done_hook=lambda _: None), "there are hooks"),
        (lambda: collector(RandomPolicy(action_space=SPACE), cart_poles()), "does not act in Rust"),
        (lambda: collector(ScriptedPolicy(), cart_poles()), "by torch: ScriptedPolicy has no native_chooser"),
        (remembering, "by torch: there are hidden states"),
        (lambda: collector(dqn(), NativeVectorEnv("Blackjack-v1", ENVS)), "observations are no arrays of one shape"),
        (lambda: collector(dqn(), cart_poles(), buffer=CachedReplayBuffer(ReplayBuffer(80), ENVS, 20)),
         "rows of a CachedReplayBuffer are added in Python"),
        (lambda: collector(dqn(), cart_poles(), buffer=OwnBuffer(80, ENVS)), "the buffer has a method of its own"),
        (lambda: collector(dqn(), cart_poles(), buffer=patched()), "the buffer has a method of its own"),
        (lambda: collector(dqn(), cart_poles(), buffer=STACKING), "rows are added in Python"),
        (lambda: collector(dqn(), cart_poles(envs=1), buffer=VectorReplayBuffer(40, 2).buffers[1]),
         "rows are added in Python"),
        (lambda: collector(dqn(inputs=3), NativeVectorEnv("Pendulum-v1", ENVS)), "do not count actions from 0"),
        (lambda: changed(exploration_noise=lambda self, act, _: act * 0), "noise of its own"),
        (lambda: changed(map_action=lambda self, act: 1 - act), "maps actions"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:.*_space:UserWarning")  # of environments that the policy is not made for
def test_representation_says_how_actions_are_chosen(make, how):
    one = make()
    assert how in repr(one)
    assert repr(one).startswith(f"Collector({type(one.policy).__name__}, {one.env_num} environments, ")


def test_options_of_a_collect_count():
    wanted, found = (collector(dqn(1.0), cart_poles(), mode) for mode in (False, True))
    for one in (wanted, found):
        one.exploration_noise = False
        one.collect(n_step=ENVS * 10, gym_reset_kwargs={"seed": 1, "options": {"low": 0.0, "high": 1e-9}})
        one.collect(n_step=ENVS * 60, gym_reset_kwargs={"options": {"low": 0.0, "high": 1e-9}})
        one.collect(n_step=ENVS * 20)
    assert same([found.buffer.act, found.buffer.obs], [wanted.buffer.act, wanted.buffer.obs])
    frames = []
    found._envs.render = lambda: frames.append(1)
    found.collect(n_step=ENVS * 3, render=1e-9)
    assert len(frames) == 3
    with pytest.raises(ValueError, match="native_acting is True, but no_grad is False"):
        found.collect(n_step=4, no_grad=False)


def test_other_native_environments_are_stepped_one_by_one():
    policy = DQNPolicy(model=Net(1, 4, [8]), optim=None, action_space=gym.spaces.Discrete(4))
    one = collector(policy, NativeVectorEnv("FrozenLake-v1", ENVS, autoreset_mode=None), True)
    assert "have infos, or observations that are not float32" in repr(one)
    assert one.collect(n_step=40).n_collected_steps == 40


def test_native_acting_raises_where_it_cannot_act():
    one = collector(dqn(), cart_poles(), True)
    one.policy.model.register_forward_hook(lambda *_: None)
    with pytest.raises(ValueError, match=r'native_acting is True, but .* hooks.*: give "auto" or False'):
        one.collect(n_step=4)
    one.native_acting = "auto"
    assert one.collect(n_step=4).n_collected_steps == 4
    for wrong in ("yes", 1, None):
        with pytest.raises(ValueError, match='must be "auto", True or False'):
            one.native_acting = wrong
